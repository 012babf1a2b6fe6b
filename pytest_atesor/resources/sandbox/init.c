/* PID 1 of a sandbox: waits for ever, reaps orphans, ends at once when the engine asks.
 *
 * The usual init programs end when their child ends; a sandbox must outlive every process in it, so that
 * "kill everything" leaves an empty sandbox and not a stopped one.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    sigset_t waited;
    int signal_number;

    sigemptyset(&waited);
    sigaddset(&waited, SIGCHLD);
    sigaddset(&waited, SIGTERM);
    sigaddset(&waited, SIGINT);
    sigprocmask(SIG_BLOCK, &waited, NULL);
    for (;;) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (sigwait(&waited, &signal_number) == 0 && signal_number != SIGCHLD)
            return 0;
    }
}
