// Coroutines whose frames are collected memory: what a suspended one holds lives, though only
// memory of the collector leads to it, and dropped frames are collected.
#include "check.h"
#include <neap.hpp>

#include <coroutine>
#include <exception>
#include <stdexcept>
#include <thread>

struct numbers {
    struct promise_type : neap::collected {
        int *current = nullptr;
        std::exception_ptr thrown;

        numbers get_return_object()
        {
            return {std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        std::suspend_always initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(int *number) noexcept
        {
            current = number;
            return {};
        }
        void return_void() noexcept {}
        void unhandled_exception() { thrown = std::current_exception(); }
    };

    std::coroutine_handle<promise_type> frame;

    int *next()
    {
        frame.resume();
        if (frame.promise().thrown)
            std::rethrow_exception(frame.promise().thrown);
        return frame.done() ? nullptr : frame.promise().current;
    }
};

static numbers count_to(int most, int *held)
{
    for (int i = 1; i <= most; i++)
        co_yield neap::make<int>(i + *held);
    if (most == 3)
        throw std::runtime_error("three");
}

static numbers *suspended; // in collected memory

static APART void make_frames(int most)
{
    suspended = neap::make_array<numbers>(MANY);
    for (int i = 0; i < MANY; i++) {
        int *held = neap::make<int>(i);
        suspended[i] = count_to(most, held);
        CHECK_EQUAL(*suspended[i].next(), i + 1);
        CHECK(neap_base(suspended[i].frame.address()) != nullptr);
        watch(i, neap_base(suspended[i].frame.address()));
        watch(MANY + i, held);
    }
}

static APART void resume_all()
{
    for (int i = 0; i < MANY; i++) {
        CHECK_EQUAL(*suspended[i].next(), i + 2);
        CHECK(suspended[i].next() == nullptr);
        // As for whatever is freed.
        CHECK_EQUAL(neap_link_unregister(&watched[i], NEAP_LINK_LONG), NEAP_OK);
        suspended[i].frame.destroy();
        suspended[i].frame = nullptr;
    }
}

int main()
{
    make_frames(2);
    collect();
    for (int i = 0; i < 10000; i++)
        *neap::make<int>(0) = 0x5a5a5a;
    CHECK_ALL_ALIVE(0);
    CHECK_ALL_ALIVE(MANY);
    // On any thread.
    std::thread(resume_all).join();
    suspended = nullptr;
    collect();
    CHECK_DEAD(MANY);

    // Dropped in the middle.
    make_frames(3);
    suspended = nullptr;
    collect();
    CHECK_DEAD(0);
    CHECK_DEAD(MANY);

    numbers three = count_to(3, neap::make<int>(0));
    int caught = 0;
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(*three.next(), i + 1);
    try {
        three.next();
    } catch (const std::runtime_error &) {
        caught++;
    }
    CHECK_EQUAL(caught, 1);
    CHECK(three.frame.done());
    three.frame.destroy();
    return finish();
}
