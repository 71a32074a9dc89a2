// SPDX-License-Identifier: Apache-2.0
#include "base/host_load.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

namespace tandem::base {

namespace {

constexpr double kMostOthers = 0.1, kMostStolen = 0.02, kMostPreempted = 50;
constexpr double kLeastOwn = 0.05;  ///< seconds of own work from which a rate of preemptions says something

std::string content(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<double> numbers(std::string_view line) {
  std::vector<double> out;
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    double value = 0;
    const auto r = std::from_chars(line.data(), line.data() + line.size(), value);
    if (r.ec != std::errc{}) return out;
    out.push_back(value);
    line.remove_prefix(static_cast<std::size_t>(r.ptr - line.data()));
  }
}

double seconds(const timeval& t) {
  return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
}

}  // namespace

void read_proc_stat(std::string_view text, double ticks, HostUsage& usage) {
  // user nice system idle iowait irq softirq steal guest guest_nice; guests count as user or nice already.
  std::vector<double> all;
  int64_t processors = 0;
  while (text.starts_with("cpu")) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.starts_with("cpu ")) {
      all = numbers(line.substr(4));
    } else {
      ++processors;
    }
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  if (all.size() < 8 || processors == 0 || ticks <= 0) return;
  usage.processors = processors;
  usage.busy = (all[0] + all[1] + all[2] + all[5] + all[6]) / ticks;
  usage.stolen = all[7] / ticks;
}

double read_load_average(std::string_view text) {
  const std::vector<double> all = numbers(text.substr(0, text.find('\n')));
  return all.size() < 3 ? -1 : all[0];
}

HostUsage host_usage() {
  HostUsage out;
  read_proc_stat(content("/proc/stat"), static_cast<double>(sysconf(_SC_CLK_TCK)), out);
  out.load_average = read_load_average(content("/proc/loadavg"));
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage use{};
    getrusage(who, &use);
    out.own += seconds(use.ru_utime) + seconds(use.ru_stime);
    if (who == RUSAGE_SELF) out.preempted = use.ru_nivcsw;
  }
  out.at = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  return out;
}

bool HostLoad::busy() const {
  if (processors > 0) return others > kMostOthers || stolen > kMostStolen;
  return preempted > kMostPreempted;
}

std::string HostLoad::text() const {
  if (processors == 0)
    return fmt::format("a thread of this program was preempted {:.0f} times a second", preempted);
  std::string out = fmt::format("other programs took {:.0f} % of {} processor{}", 100 * others, processors,
                                processors == 1 ? "" : "s");
  if (stolen > kMostStolen) out += fmt::format(", the hypervisor {:.0f} %", 100 * stolen);
  if (preempted > kMostPreempted)
    out += fmt::format(", and this one was preempted {:.0f} times a second", preempted);
  return out;
}

JsonWriter HostLoad::to_json() const {
  const auto rounded = [](double value, double parts) { return std::round(value * parts) / parts; };
  JsonWriter out = {{"processors", processors},
                    {"other_programs_share", rounded(others, 1e4)},
                    {"stolen_share", rounded(stolen, 1e4)},
                    {"preemptions_per_second", rounded(preempted, 10)}};
  if (load_average >= 0) out["load_average"] = rounded(load_average, 100);
  return out;
}

HostLoad HostLoad::from_json(const Json& d) {
  HostLoad out;
  out.processors = d.at("processors").as_int(0, 1 << 20);
  out.others = d.at("other_programs_share").as_real(0, 1);
  out.stolen = d.at("stolen_share").as_real(0, 1);
  out.preempted = d.at("preemptions_per_second").as_real(0, 1e9);
  if (d.find("load_average") != nullptr) out.load_average = d.at("load_average").as_real(0, 1e9);
  return out;
}

HostLoad load_between(const HostUsage& before, const HostUsage& after) {
  HostLoad out;
  const double own = after.own - before.own, wall = after.at - before.at;
  out.load_average = after.load_average;
  if (own > kLeastOwn) out.preempted = static_cast<double>(after.preempted - before.preempted) / own;
  if (before.processors == 0 || after.processors == 0 || wall <= 0) return out;
  out.processors = after.processors;
  const double all = wall * static_cast<double>(after.processors);
  // The kernel's counters move in ticks and may run backwards by one.
  out.others = std::clamp((after.busy - before.busy - own) / all, 0.0, 1.0);
  out.stolen = std::clamp((after.stolen - before.stolen) / all, 0.0, 1.0);
  return out;
}

HostLoad load_now(double seconds) {
  const HostUsage before = host_usage();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  return load_between(before, host_usage());
}

std::string busy_before(const HostLoad& now) {
  if (!now.busy()) return "";
  return fmt::format(
      "this machine is busy: in the last moment {}. What is measured now says little; run it again when "
      "nothing else runs here",
      now.text());
}

std::string busy_while(const HostLoad& load) {
  if (!load.busy()) return "";
  return fmt::format("the machine was busy: while this measured, {}", load.text());
}

}  // namespace tandem::base
