// Link this in place of benchmark_main: opcost then counts each case of a suite of google-benchmark by itself.
//
//     c++ -O2 -Icrates/opcost-region/include suite.cc google_benchmark_main.cc -lbenchmark -lpthread
//     opcost measure --regions ./suite
//
// google-benchmark runs each case again for its memory manager, at most 16 iterations; a region is such a
// run, and has the case's name. Without opcost the program is the same as with benchmark_main.

#include "opcost.h"
#include <algorithm>
#include <benchmark/benchmark.h>
#include <sstream>
#include <string>
#include <vector>

namespace {

std::string current;

class Regions : public benchmark::MemoryManager {
public:
    void Start() { opcost_region_begin(current.c_str()); }
    void Stop(Result *) { opcost_region_end(current.c_str(), 0); }
    void Stop(Result &) { opcost_region_end(current.c_str(), 0); }
};

class Silent : public benchmark::BenchmarkReporter {
public:
    explicit Silent(std::ostream *out)
    {
        SetOutputStream(out);
        SetErrorStream(out);
    }
    bool ReportContext(const Context &) { return true; }
    void ReportRuns(const std::vector<Run> &) {}
};

void initialize(std::vector<std::string> words)
{
    std::vector<char *> arguments;
    for (std::string &word : words)
        arguments.push_back(&word[0]);
    int count = static_cast<int>(arguments.size());
    arguments.push_back(nullptr);
    benchmark::Initialize(&count, arguments.data());
}

// Returns a pattern that matches this text only.
std::string exactly(const std::string &text)
{
    std::string pattern = "^";
    for (char letter : text) {
        if (std::string("\\^$.|?*+()[]{}").find(letter) != std::string::npos)
            pattern += '\\';
        pattern += letter;
    }
    return pattern + "$";
}

} // namespace

int main(int argc, char **argv)
{
    benchmark::Initialize(&argc, argv);
    if (!opcost_region_is_counted()) {
        benchmark::RunSpecifiedBenchmarks();
        return 0;
    }
    std::ostringstream list;
    Silent listing(&list);
    initialize({argv[0], "--benchmark_list_tests=true"});
    benchmark::RunSpecifiedBenchmarks(&listing);
    initialize({argv[0], "--benchmark_list_tests=false"});

    Regions regions;
    benchmark::RegisterMemoryManager(&regions);
    std::istringstream names(list.str());
    std::string name;
    while (std::getline(names, name)) {
        current = name;
        std::replace(current.begin(), current.end(), ' ', '_');
        std::ostringstream ignored;
        Silent silent(&ignored);
        benchmark::RunSpecifiedBenchmarks(&silent, exactly(name));
    }
    benchmark::RegisterMemoryManager(nullptr);
    return 0;
}
