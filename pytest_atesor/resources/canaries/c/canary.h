#ifndef CANARY_H
#define CANARY_H

struct pair {
    float first;
    long second;
};

unsigned canary_crc(const char *text);
double canary_series(int terms);
int canary_name(int number, char *buffer, unsigned long size);
struct pair canary_swap(struct pair value);
int canary_next(void);
int canary_sum(int count, ...);

#endif
