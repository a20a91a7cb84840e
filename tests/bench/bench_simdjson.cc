// SPDX-License-Identifier: Apache-2.0
// The baseline: simdjson On-Demand walking a trace that lies in memory already, and doing nothing with it: once every
// key and value (walk), once the rows' own members only, jumping over arguments (skim). Built by kineto.sh only, where libsimdjson-dev is installed.
#include <simdjson.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

static double cpu_seconds()
{
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

using simdjson::ondemand::json_type;

// Every key and every value, however deep; strings and numbers are passed over, not converted.
static size_t walk_value(simdjson::ondemand::value value)
{
    size_t count = 1;
    switch (value.type()) {
    case json_type::object:
        for (auto field : value.get_object()) {
            simdjson::ondemand::raw_json_string key = field.key();
            count += key.raw()[0] != '\0';
            count += walk_value(field.value());
        }
        break;
    case json_type::array:
        for (auto element : value.get_array())
            count += walk_value(element.value());
        break;
    default:
        count += value.raw_json_token().size() > 0;
    }
    return count;
}

// The rows' own members only: arguments are jumped over.
static size_t skim_value(simdjson::ondemand::value value)
{
    size_t count = 0;
    for (auto row : value.get_array()) {
        for (auto field : row.get_object()) {
            simdjson::ondemand::raw_json_string key = field.key();
            count += key.raw()[0] != '\0';
        }
    }
    return count;
}

static size_t walk(simdjson::ondemand::parser &parser, const simdjson::padded_string &text, bool is_skim)
{
    size_t count = 0;
    simdjson::ondemand::document document = parser.iterate(text);
    for (auto member : document.get_object()) {
        const bool is_rows = member.unescaped_key().value() == "traceEvents";
        if (!is_skim)
            count += walk_value(member.value());
        else if (is_rows)
            count += skim_value(member.value());
    }
    return count;
}

static void measure(const char *name, const simdjson::padded_string &text, int runs, bool is_skim)
{
    simdjson::ondemand::parser parser;
    double best = 1e9;
    size_t count = 0;
    for (int run = 0; run < runs; run++) {
        const double start = cpu_seconds();
        count = walk(parser, text, is_skim);
        const double seconds = cpu_seconds() - start;
        best = seconds < best ? seconds : best;
    }
    std::printf("{\"bench\": \"simdjson_%s\", \"file\": \"%s\", \"raw_bytes\": %zu, \"visited\": %zu, "
                "\"cpu_ms\": %.3f, \"mb_per_s\": %.0f, \"kernel\": \"%s\"}\n",
                is_skim ? "skim" : "walk", name, text.size(), count, best * 1e3,
                static_cast<double>(text.size()) / best / 1e6,
                std::string(simdjson::get_active_implementation()->name()).c_str());
}

int main(int argc, char **argv)
{
    int runs = 5;
    for (int i = 1; i < argc; i++) {
        if (!std::strcmp(argv[i], "--runs") && i + 1 < argc) {
            runs = std::atoi(argv[++i]);
            continue;
        }
        simdjson::padded_string text = simdjson::padded_string::load(argv[i]);
        measure(argv[i], text, runs, false);
        measure(argv[i], text, runs, true);
    }
    return 0;
}
