// A generator: a coroutine (C++20) whose frame is collected memory. One that nobody resumes any
// more is dropped as everything else; nothing has to destroy it.
#include <neap.hpp>

#include <coroutine>
#include <cstdio>
#include <exception>

struct numbers {
    struct promise_type : neap::collected {
        long current = 0;
        numbers get_return_object()
        {
            return {std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        std::suspend_always initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(long number) noexcept
        {
            current = number;
            return {};
        }
        void return_void() noexcept {}
        void unhandled_exception() { std::terminate(); }
    };

    std::coroutine_handle<promise_type> frame;

    long next()
    {
        frame.resume();
        return frame.promise().current;
    }
};

static numbers fibonacci()
{
    long one = 0, two = 1;
    for (;;) {
        co_yield one;
        long sum = one + two;
        one = two;
        two = sum;
    }
}

int main()
{
    long sum = 0;
    for (int i = 0; i < 100000; i++) {
        numbers all = fibonacci();
        for (int k = 0; k < 10; k++)
            sum += all.next();
    }
    std::printf("%ld\n", sum);
}
