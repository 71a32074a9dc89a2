// SPDX-License-Identifier: Apache-2.0
#pragma once
// Between the process that has a sweep's file and others that answer cells for it. One message goes each way:
// a thread of theirs says what it answered, and is told what to answer next.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>

#include "answers/question.h"
#include "sweep/cell.h"
#include "sweep/store.h"
#include "sweep/work.h"

namespace tandem::sweep {

/// Other processes that answer cells for the one that has the file.
struct Others {
  int64_t threads = 0;  ///< of all of them together
  /// Calls `answer` with each message that one of their threads sends, and sends back what it returns, until
  /// `over` is true. Called from another thread.
  std::function<void(const std::function<std::string(const std::string&)>& answer,
                     const std::function<bool()>& over)>
      serve = {};
  std::chrono::milliseconds patience{30'000};  ///< when all is answered: with threads that do not ask again
};

/// Sends a message of one of this process's threads to the process with the file; returns what comes back.
using Ask = std::function<std::string(int thread, const std::string& message)>;
/// In a process of Others: answers the cells that the process with the file gives out, until there are no
/// more. `together`: a finished cell waits so long for others at most. Throws what `ask` throws.
void answer_for(const Header& header, const Hooks& hooks, int threads, const Ask& ask,
                std::chrono::milliseconds together = std::chrono::milliseconds(100));

/// The end of it where the file is. Others may ask from its construction to its end, and wait for what it
/// gives out. For one thread at a time.
class Desk {
 public:
  /// Keys of the cells that the file has, by position.
  using Keys = std::unordered_map<int64_t, std::string>;
  /// Takes the row of Work's cell `index`, or nothing where the file's is right.
  using Keep = std::function<void(std::size_t index, std::optional<Row> row)>;

  /// `stop`: once true nobody is waited for; null: never.
  Desk(const Others& others, const std::atomic<bool>* stop);
  ~Desk();
  Desk(const Desk&) = delete;
  Desk& operator=(const Desk&) = delete;

  /// Gives out cells while `here` runs, which may take some as well; then no more. What they answer comes to
  /// `keep`, from another thread.
  void share(Work& work, const Keys& known, const Keep& keep, const std::function<void()>& here);
  /// Tells all their threads that there is no more. Returns how many did not ask again within
  /// Others::patience, or before a stop: they are lost, or busy with a cell that is no longer needed.
  int64_t close();

 private:
  std::string reply(const std::string& asked);
  bool over();

  const Others& others_;
  const std::atomic<bool>* const stop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Work* work_ = nullptr;  ///< this and the next two: while it is shared
  const Keys* known_ = nullptr;
  const Keep* keep_ = nullptr;
  std::optional<std::chrono::steady_clock::time_point> closed_;
  int64_t told_ = 0;
  std::thread thread_;
};

}  // namespace tandem::sweep
