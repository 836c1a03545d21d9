// A suite like those of google-benchmark's own documents; google_benchmark_main.cc counts each case.
#include <benchmark/benchmark.h>
#include <cstring>
#include <string>
#include <vector>

static void BM_Copy(benchmark::State &state)
{
    std::vector<char> from(static_cast<size_t>(state.range(0)), 'x'), to(from.size());
    for (auto _ : state) {
        std::memcpy(to.data(), from.data(), from.size());
        benchmark::DoNotOptimize(to.data());
    }
}
BENCHMARK(BM_Copy)->Arg(64)->Arg(4096);

static void BM_String(benchmark::State &state)
{
    for (auto _ : state) {
        std::string text;
        for (int turn = 0; turn < 100; turn++)
            text += "word ";
        benchmark::DoNotOptimize(text);
    }
}
BENCHMARK(BM_String);
