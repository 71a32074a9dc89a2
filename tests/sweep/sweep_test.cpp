// SPDX-License-Identifier: Apache-2.0
// Whatever happens while a grid is answered, the file holds the same in the end.
#include "sweep/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include "base/data.h"
#include "sweep/lock.h"
#include "tests/sweep/grids.h"

namespace tandem::tests {
namespace {

using sweep::Store;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string& expected_csv() {
  static const std::string csv = undisturbed_csv(small_grid());
  return csv;
}

/// The value of a row's column.
sweep::Value at(const Store& store, const sweep::Row& row, const std::string& column) {
  const auto columns = store.columns();
  for (std::size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].name == column) return row[c];
  }
  return {};
}

double number_at(const Store& store, const sweep::Row& row, const std::string& column) {
  const sweep::Value value = at(store, row, column);
  const auto* whole = std::get_if<int64_t>(&value);
  const auto* real = std::get_if<double>(&value);
  return whole != nullptr ? static_cast<double>(*whole) : real != nullptr ? *real : -1;
}

std::string text_at(const Store& store, const sweep::Row& row, const std::string& column) {
  const sweep::Value value = at(store, row, column);
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? "" : *text;
}

TEST(Sweep, GivesTheSameBytesForAnyNumberOfThreads) {
  const SweepFolder folder;
  for (const int threads : {2, 7}) {
    const std::string file = folder.file(std::to_string(threads));
    const sweep::Outcome outcome = sweep::answer_grid(sweep_of(small_grid(), file, threads));
    EXPECT_EQ(outcome.done, 144);
    EXPECT_EQ(outcome.before, 0);
    EXPECT_EQ(csv_of(file), expected_csv());
  }
  EXPECT_THAT(folder.names(), ::testing::UnorderedElementsAre("2", "7"));  // and nothing beside them
}

TEST(Sweep, AnswersWhatAPredictionAnswers) {
  const SweepFolder folder;
  const std::string file = folder.file("grid.sqlite");
  Given options = small_grid();
  options.push_back({"precision", "fp16"});
  options.push_back({"staged", "true"});
  sweep::answer_grid(sweep_of(options, file));
  Store store = Store::read(file);
  int answered = 0;
  store.each([&](const sweep::Row& row) {
    const std::string document = text_at(store, row, "question");
    const auto q = Question::from_json(Json::parse(document, "question"));
    EXPECT_EQ(text_at(store, row, "hash"), sweep::key_text(q.hash())) << document;
    EXPECT_EQ(q.batch, number_at(store, row, "batch"));
    EXPECT_EQ(q.devices[0], number_at(store, row, "devices"));
    if (text_at(store, row, "status") != "answered") return;
    ++answered;
    const Report report = answers::predict(q, q.devices[0], answers::Depth::report);
    EXPECT_EQ(number_at(store, row, "samples_per_second"), report.rate.samples_per_second) << document;
    EXPECT_EQ(number_at(store, row, "samples_per_second_low"), report.rate.interval.low) << document;
    EXPECT_EQ(number_at(store, row, "memory_bytes"), report.memory.needed().n) << document;
    EXPECT_EQ(number_at(store, row, "memory_capacity_bytes"), report.memory.capacity.n) << document;
  });
  EXPECT_EQ(answered, 96);
}

TEST(Sweep, KeepsReasonsOfWhatCannotBeAnswered) {
  const SweepFolder folder;
  const std::string file = folder.file("grid.sqlite");
  const Given options = {{"model", "lenet5,gpt3-175b"},
                         {"system", "dgx1-v100,v100-pcie-8x"},
                         {"devices", "8,16"},
                         {"batch", "8"},
                         {"set", "links.nvlink.bandwidth=default,10GB/s"}};
  sweep::answer_grid(sweep_of(options, file));
  Store store = Store::read(file);
  std::map<std::string, int> of;
  store.each([&](const sweep::Row& row) {
    const std::string status = text_at(store, row, "status");
    ++of[status];
    EXPECT_EQ(status == "answered", text_at(store, row, "reason").empty());
    if (status == "does not fit") {
      EXPECT_GT(number_at(store, row, "memory_bytes"), number_at(store, row, "memory_capacity_bytes"));
      EXPECT_THAT(text_at(store, row, "reason"), HasSubstr("GiB"));
    }
    if (status != "answered") {
      EXPECT_EQ(at(store, row, "samples_per_second").index(), 0u);
    }
  });
  // No NVLink in the box with PCIe: those questions cannot be read. Nor has any box 16 devices.
  EXPECT_EQ(of["answered"], 3);
  EXPECT_EQ(of["does not fit"], 3);
  EXPECT_EQ(of["refused"], 10);
  const std::string before = csv_of(file);
  EXPECT_EQ(sweep::answer_grid(sweep_of(options, file)).before, 16);
  EXPECT_EQ(csv_of(file), before);
}

TEST(Sweep, RefusesNamesAndNumbersThatNoCellCanHave) {
  const SweepFolder folder;
  const auto refusal = [&](const std::string& option, const std::string& value) -> std::string {
    Given options = {{"model", "lenet5"}, {"system", "dgx1-v100"}, {"devices", "1,2"}};
    std::erase_if(options, [&](const auto& each) { return each.first == option; });
    options.emplace_back(option, value);
    try {
      sweep::answer_grid(sweep_of(options, folder.file("grid.sqlite")));
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal("model", "lenet5,lenet6"), HasSubstr("lenet5"));
  EXPECT_THAT(refusal("system", "dgx1-v100,dgx1-v200"), HasSubstr("dgx1-v100"));
  EXPECT_THAT(refusal("scheme", "allreduce,allredcue"), HasSubstr("Did you mean allreduce"));
  EXPECT_THAT(refusal("batch", "8,0"), HasSubstr("--batch"));
  EXPECT_THAT(refusal("precision", "fp32,fp17"), HasSubstr("--precision"));
  EXPECT_TRUE(folder.names().empty());
}

TEST(Sweep, StoppedGoesOn) {
  const SweepFolder folder;
  std::atomic<bool> stop{false};
  // One thread: a second could count what is there while the last that is not is being answered.
  sweep::SweepQuestion q = sweep_of(small_grid(), folder.file("grid.sqlite"), 1);
  q.stop = &stop;
  q.progress = [&](const sweep::Progress& p) { stop = stop || p.done > 0; };
  int64_t done = 0;
  while (done < 144) {
    stop = false;
    const sweep::Outcome next = sweep::answer_grid(q);
    EXPECT_EQ(next.before, done);
    EXPECT_GT(next.done, done);  // those that are not there come first
    done = next.done;
  }
  EXPECT_EQ(csv_of(q.out), expected_csv());
}

/// Runs `work` in a process of its own, which is killed after so long unless it ended before.
template <typename Work>
void killed_after(std::chrono::microseconds delay, Work work) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(0);
  }
  std::this_thread::sleep_for(delay);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

std::chrono::microseconds time_of(const Given& options) {
  const auto start = std::chrono::steady_clock::now();
  undisturbed_csv(options);
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start);
}

TEST(Sweep, KilledAtAnyMomentGoesOn) {
  const SweepFolder folder;
  const std::string expected = expected_csv();
  const int64_t whole = time_of(small_grid()).count();
  std::minstd_rand random(1);  // NOLINT: the same moments each time
  const sweep::SweepQuestion q = sweep_of(small_grid(), folder.file("grid.sqlite"));
  for (int i = 0; i < 10; ++i) {
    const std::chrono::microseconds delay(static_cast<int64_t>(random() % 1000) * whole / 1000);
    killed_after(delay, [&] { sweep::answer_grid(q); });
  }
  sweep::answer_grid(q);
  EXPECT_EQ(csv_of(q.out), expected);
}

TEST(Sweep, KilledShardsGoOnAndMergeToTheWhole) {
  const SweepFolder folder;
  const int64_t whole = time_of(small_grid()).count();
  std::minstd_rand random(2);  // NOLINT
  std::vector<std::string> files;
  for (int64_t i = 0; i < 3; ++i) {
    sweep::SweepQuestion q = sweep_of(small_grid(), folder.file("grid.sqlite"));
    q.header.shard = {i, 3};
    for (int k = 0; k < 3; ++k) {
      const std::chrono::microseconds delay(static_cast<int64_t>(random() % 1000) * whole / 2000);
      killed_after(delay, [&] { sweep::answer_grid(q); });
    }
    files.push_back(sweep::answer_grid(q).file);
  }
  EXPECT_EQ(folder.names().size(), 3u)  // what the killed attempts left is gone
      << ::testing::PrintToString(folder.names());
  const std::string merged = folder.file("merged.sqlite");
  EXPECT_EQ(sweep::merge(files, merged).done, 144);
  EXPECT_EQ(csv_of(merged), expected_csv());
  EXPECT_EQ(sweep::answer_grid(sweep_of(small_grid(), merged)).before, 144);
}

TEST(Sweep, TwoAttemptsAtOneShardDoNoHarm) {
  const SweepFolder folder;
  sweep::SweepQuestion q = sweep_of(small_grid(), folder.file("grid.sqlite"), 1);
  q.header.shard = {1, 2};
  std::thread other([&] { sweep::answer_grid(q); });
  sweep::answer_grid(q);
  other.join();
  Store store = Store::read(folder.file("grid.shard-1-of-2.sqlite"));
  EXPECT_EQ(store.cells(), static_cast<int64_t>(q.header.grid.order(q.header.shard).size()));
  EXPECT_THAT(folder.names(), ElementsAre("grid.shard-1-of-2.sqlite"));
}

TEST(Sweep, FileHasOneWriter) {
  const SweepFolder folder;
  const std::string file = folder.file("grid.sqlite");
  {
    const auto lock = sweep::WriterLock::take(file);
    ASSERT_TRUE(lock);
    EXPECT_FALSE(sweep::WriterLock::take(file));
    EXPECT_THAT(refusal_of([&] { sweep::answer_grid(sweep_of(small_grid(), file)); }),
                HasSubstr("another process is writing it"));
  }
  EXPECT_TRUE(folder.names().empty());
  EXPECT_EQ(sweep::answer_grid(sweep_of(small_grid(), file)).done, 144);
}

TEST(Sweep, AnswersAgainWhereAModelsFileChanged) {
  const SweepFolder folder;
  const std::string model = folder.file("mine.json");
  const std::string text = read_file(find_data("models/zoo", "model", "lenet5"));
  std::ofstream(model) << text;
  const Given options = {{"model", "lenet5," + model}, {"system", "dgx1-v100"}, {"devices", "1,2"}};
  const std::string file = folder.file("grid.sqlite");
  sweep::answer_grid(sweep_of(options, file));
  std::ofstream(model, std::ios::app) << "\n\n";
  EXPECT_EQ(sweep::answer_grid(sweep_of(options, file)).before, 2);
  EXPECT_EQ(Store::read(file).cells(), 4);
  EXPECT_EQ(sweep::answer_grid(sweep_of(options, file)).before, 4);
}

/// A file that cannot grow: what was finished before stays.
TEST(Sweep, FullDiskLosesNothing) {
  const SweepFolder folder;
  sweep::SweepQuestion q = sweep_of(small_grid(), folder.file("grid.sqlite"));
  const std::string message = folder.file("message");
  const pid_t child = fork();
  if (child == 0) {
    const std::string said = refusal_of([&] {
      signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{40'000, 40'000};
      setrlimit(RLIMIT_FSIZE, &limit);
      sweep::answer_grid(q);
    });
    std::ofstream(message) << said;
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_THAT(read_file(message), AllOf(HasSubstr("grid.sqlite: "), HasSubstr("what was finished is kept")));
  EXPECT_EQ(sweep::answer_grid(q).done, 144);
  EXPECT_EQ(csv_of(q.out), expected_csv());
}

}  // namespace
}  // namespace tandem::tests
