// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Tracepoints of a program with one thread for each shard of its data, as Seastar asks for (scylladb/seastar#3449). A tracepoint
 * that is off is a nop in the code of its statement, and all of them are switched in the running program. Records go to a ring of
 * the shard's own, so tracing needs no lock.
 */
#include <patchpoint.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <string_view>
#include <thread>
#include <vector>

namespace {

struct record {
	const char *name;
	std::array<unsigned long, 3> fields;
};

// The last records of one shard.
class ring {
public:
	void add(const record &last) noexcept { records_[count_++ % records_.size()] = last; }
	// Counts the records of a name that are still in the ring.
	long count(const char *name) const noexcept
	{
		const std::size_t kept = std::min(count_, records_.size());

		return std::count_if(records_.begin(), records_.begin() + static_cast<std::ptrdiff_t>(kept), [&](const record &one) {
			return std::string_view(one.name) == name;
		});
	}

private:
	std::array<record, 4096> records_{};
	std::size_t count_ = 0;
};

thread_local ring *shard_ring;

// Fields are numbers. An event that needs more gets a function, which is called only while the tracepoint is on.
template <class... Field> class [[gnu::visibility("hidden")]] tracepoint {
	static_assert(sizeof...(Field) <= 3, "a record has three fields");

public:
	constexpr explicit tracepoint(const char *name) noexcept : enabled_(name) {}

	[[gnu::always_inline]] void operator()(Field... fields) const noexcept
	{
		if (enabled_.unlikely())
			write(enabled_.name(), fields...);
	}
	template <class Fields> [[gnu::always_inline]] void with(Fields &&fields) const
	{
		if (enabled_.unlikely())
			fields([this](Field... given) { write(enabled_.name(), given...); });
	}
	patchpoint::branch &key() noexcept { return enabled_; }
	const char *name() const noexcept { return enabled_.name(); }

private:
	[[gnu::cold, gnu::noinline]] static void write(const char *name, Field... fields) noexcept
	{
		if (shard_ring)
			shard_ring->add({name, {static_cast<unsigned long>(fields)...}});
	}

	patchpoint::branch enabled_;
};

tracepoint<unsigned long> task_started{"task_started"};
tracepoint<unsigned long, unsigned long> task_done{"task_done"};
tracepoint<unsigned long> queue_summed{"queue_summed"};

} // namespace

// A task of the reactor. While both tracepoints are off they are two nops. Values that are live across their rare sides cost what
// the compiler makes of them: gcc aligns the stack, clang keeps two registers (docs/patchpoint.md).
extern "C" [[gnu::noinline]] unsigned long run_task(unsigned long number)
{
	task_started(number);
	unsigned long result = number * 0x9e3779b97f4a7c15ul;
	result ^= result >> 32;
	task_done(number, result);
	return result;
}

namespace {

struct shard {
	ring records;
	std::vector<unsigned long> results = std::vector<unsigned long>(64);
	std::atomic<unsigned long> rounds{0};

	void run(const std::atomic<bool> &stop)
	{
		shard_ring = &records;
		while (!stop.load(std::memory_order_relaxed)) {
			for (unsigned long i = 0; i < results.size(); i++)
				results[i] = run_task(i);
			// The sum is computed for the record only.
			queue_summed.with([&](auto write) {
				unsigned long sum = 0;
				for (unsigned long result : results)
					sum += result;
				write(sum);
			});
			rounds.fetch_add(1, std::memory_order_release);
		}
	}
	// Waits until a whole round was executed after this call.
	void wait_for_round() const
	{
		const unsigned long now = rounds.load(std::memory_order_acquire);
		while (rounds.load(std::memory_order_acquire) < now + 2)
			std::this_thread::yield();
	}
};

} // namespace

// With an argument the tracepoints are on at the end.
int main(int count, char **)
{
	std::array<shard, 2> shards;
	std::atomic<bool> stop{false};
	std::vector<std::thread> threads;
	std::error_code error = patchpoint::init();

	for (shard &one : shards)
		threads.emplace_back([&] { one.run(stop); });
	auto all_of_a_round = [&] {
		for (const shard &one : shards)
			one.wait_for_round();
	};
	auto trace = [&](bool on) {
		patchpoint::transaction change;

		change.set(task_done.key(), on).set(queue_summed.key(), on);
		return change.commit();
	};

	all_of_a_round();
	if (!error)
		error = trace(true);
	all_of_a_round();
	if (!error)
		error = trace(false);
	all_of_a_round();
	stop = true;
	for (std::thread &thread : threads)
		thread.join();
	if (!error && count > 1)
		error = trace(true);
	for (const shard &one : shards)
		std::printf("shard: %s %s, %s %s, %s %s\n", task_started.name(), one.records.count("task_started") ? "traced" : "not traced",
			    task_done.name(), one.records.count("task_done") ? "traced" : "not traced", queue_summed.name(),
			    one.records.count("queue_summed") ? "traced" : "not traced");
	if (error)
		std::fprintf(stderr, "tracepoints: %s\n", error.message().c_str());
	return error ? 1 : 0;
}
