// SPDX-License-Identifier: Apache-2.0
// Other processes answer cells: threads that share nothing with the one that has the file but messages.
#include "sweep/sweep.h"

#include <gtest/gtest.h>

#include <deque>
#include <future>
#include <thread>

#include "tests/sweep/grids.h"

namespace tandem::tests {
namespace {

using sweep::Store;

/// Carries messages from threads that ask to one that answers.
class Post {
 public:
  std::string ask(const std::string& message) {
    std::promise<std::string> reply;
    auto replied = reply.get_future();
    {
      const std::lock_guard lock(mutex_);
      asked_.emplace_back(message, std::move(reply));
    }
    return replied.get();
  }
  sweep::Others others(int64_t threads) {
    sweep::Others out;
    out.threads = threads;
    out.serve = [this](const auto& answer, const auto& over) {
      while (!over()) {
        if (auto next = take()) {
          next->second.set_value(answer(next->first));
        } else {
          std::this_thread::yield();
        }
      }
    };
    return out;
  }

 private:
  using Asked = std::pair<std::string, std::promise<std::string>>;
  std::optional<Asked> take() {
    const std::lock_guard lock(mutex_);
    if (asked_.empty()) return {};
    Asked out = std::move(asked_.front());
    asked_.pop_front();
    return out;
  }
  std::mutex mutex_;
  std::deque<Asked> asked_;
};

/// A process of so many threads that answers until there is no more.
std::thread other_process(Post& post, const Given& options, int threads) {
  return std::thread([&post, options, threads] {
    const sweep::SweepQuestion q = sweep_of(options, "", threads);
    sweep::answer_for(q.header, q.hooks, q.threads,
                      [&](int, const std::string& message) { return post.ask(message); });
  });
}

TEST(SweepDesk, OthersAnswerEachCellAsOneProcessDoes) {
  const SweepFolder folder;
  const std::string file = folder.file("grid.sqlite");
  const sweep::SweepQuestion q = sweep_of(small_grid(), file);
  Store store = Store::write(file, q.header);
  Post post;
  const sweep::Others others = post.others(3);
  std::thread one = other_process(post, small_grid(), 2), two = other_process(post, small_grid(), 1);
  {
    sweep::Work work(q.header.grid.order({}), 3);
    sweep::Desk desk(others, nullptr);
    const sweep::Desk::Keep keep = [&](std::size_t index, std::optional<sweep::Row> row) {
      ASSERT_TRUE(row);
      if (work.answered(index)) store.add({*row});
    };
    desk.share(work, {}, keep, [&] {
      while (!work.all_answered()) std::this_thread::yield();
    });
    EXPECT_EQ(desk.close(), 0);
  }
  one.join();
  two.join();
  EXPECT_EQ(csv_of(file), undisturbed_csv(small_grid()));
}

TEST(SweepDesk, FileIsTheSameWhoeverAnswers) {
  const SweepFolder folder;
  sweep::SweepQuestion q = sweep_of(small_grid(), folder.file("grid.sqlite"), 1);
  for (const int64_t before : {0, 144}) {  // the second time all is there: others find the same keys
    Post post;
    q.others = post.others(2);
    std::thread other = other_process(post, small_grid(), 2);
    const sweep::Outcome outcome = sweep::answer_grid(q);
    other.join();
    EXPECT_EQ(outcome.done, 144);
    EXPECT_EQ(outcome.before, before);
    EXPECT_EQ(outcome.lost, 0);
    EXPECT_TRUE(outcome.complete);
    EXPECT_EQ(csv_of(q.out), undisturbed_csv(small_grid()));
  }
}

/// One that takes cells and is not heard of again: they are answered here.
TEST(SweepDesk, CellsOfALostProcessAreAnswered) {
  const SweepFolder folder;
  sweep::SweepQuestion q = sweep_of(small_grid(), folder.file("grid.sqlite"), 1);
  Post post;
  q.others = post.others(1);
  q.others.patience = std::chrono::milliseconds(1);
  const auto serve = q.others.serve;
  std::string given;
  q.others.serve = [&](const auto& answer, const auto& over) {
    given = answer(R"({"wants": true, "answers": []})");
    serve(answer, over);
  };
  const sweep::Outcome outcome = sweep::answer_grid(q);
  EXPECT_EQ(outcome.done, 144);
  EXPECT_TRUE(outcome.complete);
  EXPECT_EQ(csv_of(q.out), undisturbed_csv(small_grid()));
  EXPECT_EQ(outcome.lost, given.empty() ? 0 : 1);  // empty: it asked when all was answered
}

TEST(SweepDesk, OthersEndWhereNothingCanBeAnswered) {
  const SweepFolder folder;
  Given options = small_grid();
  options[0].second = "lenet5,no-such-model";
  sweep::SweepQuestion q = sweep_of(options, folder.file("grid.sqlite"), 1);
  Post post;
  q.others = post.others(2);
  std::thread other = other_process(post, options, 2);
  EXPECT_NE(refusal_of([&] { sweep::answer_grid(q); }), "");
  other.join();
}

TEST(SweepWork, GivesEachCellOnceAndLostOnesAgain) {
  sweep::Work work({4, 3, 2, 1, 0}, 1);
  const auto here = work.take_here(), away = work.take_away();
  EXPECT_EQ(here.begin, 0u);
  EXPECT_EQ(here.end, 1u);
  EXPECT_EQ(away.begin, 1u);
  EXPECT_EQ(away.end, 2u);
  while (!work.take_away().empty()) {
  }
  EXPECT_TRUE(work.answered(2));
  EXPECT_FALSE(work.answered(2));
  std::vector<int64_t> lost;
  for (auto part = work.take_here(); !part.empty(); part = work.take_here()) {
    lost.push_back(work.position(part.begin));
    work.answered(part.begin);
  }
  EXPECT_EQ(lost, (std::vector<int64_t>{3, 1, 0}));
  EXPECT_FALSE(work.all_answered());
  EXPECT_TRUE(work.answered(0));
  EXPECT_TRUE(work.all_answered());
}

}  // namespace
}  // namespace tandem::tests
