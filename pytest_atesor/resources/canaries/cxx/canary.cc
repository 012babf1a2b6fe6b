// Templates, exceptions that cross frames, virtual calls, run-time types, thread-local objects, a lambda.
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Bird {
    virtual ~Bird() = default;
    virtual std::string song() const = 0;
};

struct Canary : Bird {
    std::string song() const override { return "tweet"; }
};

struct Guard {
    explicit Guard(int &count) : count(count) {}
    ~Guard() { ++count; }
    int &count;
};

thread_local std::vector<int> numbers;

template <typename Number, unsigned Size> struct Table {
    Number cells[Size] = {};
    constexpr Number sum() const
    {
        Number total = 0;
        for (const Number cell : cells)
            total += cell;
        return total;
    }
};

int fall(int depth, int &cleaned)
{
    const Guard guard(cleaned);
    if (depth == 0)
        throw std::out_of_range("ground");
    return fall(depth - 1, cleaned) + 1;
}

} // namespace

int main()
{
    std::map<std::string, int> words;
    int cleaned = 0;

    for (const char *word : { "one", "two", "one" })
        ++words[word];
    try {
        fall(5, cleaned);
    } catch (const std::logic_error &error) {
        std::printf("%s after %d\n", error.what(), cleaned);
    }
    const std::unique_ptr<Bird> bird = std::make_unique<Canary>();
    const auto add = [&](int number) { numbers.push_back(number * number); };
    for (int number = 0; number < 4; number++)
        add(number);
    constexpr Table<double, 4> table{ { 0.5, 1.5, 2.0, 4.0 } };
    std::printf("%s %d %zu %d %.2f %d\n", bird->song().c_str(), words["one"], words.size(), numbers.back(),
        table.sum(), dynamic_cast<Canary *>(bird.get()) != nullptr);
}
