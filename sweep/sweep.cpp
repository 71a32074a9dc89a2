// SPDX-License-Identifier: Apache-2.0
#include "sweep/sweep.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <thread>

#include "base/in_parallel.h"
#include "base/until.h"
#include "sweep/desk.h"
#include "sweep/lock.h"
#include "sweep/reader.h"

namespace tandem::sweep {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// The one thread that writes: takes rows from all others and keeps them, many at a time.
class Writer {
 public:
  Writer(Store& store, const SweepQuestion& q, int64_t cells)
      : store_(store), q_(q), cells_(cells), thread_([this] { write(); }) {}
  ~Writer() { end(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void add(Row row) {
    const std::lock_guard lock(mutex_);
    rows_.push_back(std::move(row));
    if (rows_.size() >= kRowsAtOnce) wake_.notify_one();
  }
  /// A cell that the file has already.
  void skip() { ++skipped_; }
  /// Whether it cannot write, or the caller wants no more.
  bool stopped() const { return failed_ || (q_.stop != nullptr && *q_.stop); }
  /// Writes what is left. Throws what writing threw.
  int64_t finish() {
    end();
    if (error_) std::rethrow_exception(error_);
    return done_;
  }

 private:
  void end() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  void write() {
    bool ended = false;
    while (!ended) {
      std::vector<Row> rows;
      {
        std::unique_lock lock(mutex_);
        wake_.wait_for(lock, q_.together, [&] { return ended_ || rows_.size() >= kRowsAtOnce; });
        rows.swap(rows_);
        ended = ended_;
      }
      try {
        if (!rows.empty() && !failed_) store_.add(rows);
        done_ += static_cast<int64_t>(rows.size());
        tell();
      } catch (...) {
        if (!error_) error_ = std::current_exception();
        failed_ = true;
      }
    }
  }

  void tell() const {
    if (!q_.progress) return;
    Progress p{cells_, done_ + skipped_, std::chrono::duration<double>(Clock::now() - start_).count(), 0};
    if (done_ > 0) p.left = p.seconds / static_cast<double>(done_) * static_cast<double>(p.cells - p.done);
    q_.progress(p);
  }

  Store& store_;
  const SweepQuestion& q_;
  const Clock::time_point start_ = Clock::now();
  const int64_t cells_;
  int64_t done_ = 0;  ///< of the writing thread, until that ends
  std::atomic<int64_t> skipped_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::vector<Row> rows_;
  std::thread thread_;
};

/// Answers all cells that are not in the file with the key of their question; first those of which nothing is
/// there, so that a run that is stopped early has got on.
Outcome answer_missing(Store& store, const SweepQuestion& q, Desk& desk) {
  const Grid& grid = q.header.grid;
  const Depth depth = parse_depth(q.header.depth, option_place("depth"));
  const Desk::Keys known = store.keys();
  std::vector<int64_t> order = grid.order(q.header.shard);
  std::stable_partition(order.begin(), order.end(), [&](int64_t at) { return known.count(at) == 0; });
  Work work(std::move(order), q.threads + q.others.threads);
  Writer writer(store, q, static_cast<int64_t>(work.cells()));
  const Desk::Keep keep = [&](std::size_t index, std::optional<Row> row) {
    if (!work.answered(index)) return;
    row ? writer.add(std::move(*row)) : writer.skip();
  };
  Hooks quiet = q.hooks;
  quiet.note = nullptr;
  const auto programs = std::make_shared<Programs>();
  const auto answer_here = [&](std::size_t) {
    const Until until(q.stop);
    Reader reader(grid, quiet, programs);
    for (Work::Part part = work.take_here(); !part.empty(); part = work.take_here()) {
      for (std::size_t i = part.begin; i < part.end; ++i) {
        if (writer.stopped()) return;
        const auto at = known.find(work.position(i));
        try {
          keep(i, answer_cell(reader, grid, work.position(i), at == known.end() ? "" : at->second, depth));
        } catch (const Stopped&) {
          return;
        }
      }
    }
  };
  desk.share(work, known, keep,
             [&] { base::in_parallel(static_cast<std::size_t>(q.threads), q.threads, answer_here); });
  const int64_t answered = writer.finish();
  const int64_t done = store.cells();
  store.finish();
  return {store.file(),
          static_cast<int64_t>(work.cells()),
          done,
          done - std::min(done, answered),
          work.all_answered(),
          desk.close()};
}

constexpr std::string_view kPart = ".part";

/// "name.host-pid-time.part": of this attempt alone, on any machine.
std::string attempt_name(const std::string& file) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return fmt::format("{}.{}-{}-{}{}", file, host, getpid(),
                     std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(), kPart);
}

/// What attempts at the same shard left, which may still be written.
std::vector<std::string> attempts_at(const std::string& file) {
  std::set<std::string> out;
  const fs::path path(file);
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const std::string begin = path.filename().string() + ".";
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    const auto part = name.rfind(kPart);  // its lock may be all that there is
    if (!name.starts_with(begin) || part == std::string::npos) continue;
    out.insert((entry.path().parent_path() / name.substr(0, part + kPart.size())).string());
  }
  return {out.begin(), out.end()};
}

void adopt(Store& to, const std::string& file) {
  Store from = Store::read(file);
  if (!difference(from.header(), to.header(), true).empty()) return;
  std::vector<Row> rows;
  from.each([&](Row row) {
    rows.push_back(std::move(row));
    if (rows.size() < kRowsAtOnce) return;
    to.add(rows);
    rows.clear();
  });
  to.add(rows);
}

/// Takes over what a dead attempt left; one that is alive, here or elsewhere, is left alone.
void adopt_attempt(Store& to, const std::string& file) {
  const auto lock = WriterLock::take(file);
  if (!lock || !lock->alone()) return;
  try {
    adopt(to, file);
  } catch (const InputError&) {  // it ended before its first cell
  }
}

/// Removes what a dead attempt left.
void remove_attempt(const std::string& file) {
  const auto lock = WriterLock::take(file);
  if (!lock || !lock->alone()) return;
  remove_store(file);
}

/// Answers a shard, or a grid of which another build answered the file, in a file of this attempt's own.
Outcome answer_apart(const SweepQuestion& q, Desk& desk, const std::string& file) {
  const std::string own = attempt_name(file);
  const std::vector<std::string> attempts = attempts_at(file);
  std::error_code none;
  const bool begun = fs::exists(file, none);
  if (begun) {
    const Store found = Store::read(file);
    if (!check_same(found, q.header) && q.hooks.note)
      q.hooks.note(
          fmt::format("{}: tandem {} answered it, this is {}: its cells are answered again, and it is "
                      "replaced at the end",
                      printable(file), printable(found.header().build), q.header.build));
  }
  Outcome out;
  {
    const auto lock = WriterLock::take(own);
    Store store = Store::write(own, q.header, true);
    for (const std::string& attempt : attempts) adopt_attempt(store, attempt);
    if (begun) adopt(store, file);
    out = answer_missing(store, q, desk);
    if (!out.complete) return out;
  }
  replace_store(own, file);
  for (const std::string& attempt : attempts) remove_attempt(attempt);
  out.file = file;
  return out;
}

/// Whether the file holds this sweep as another build answered it. SQLite's log is then part of it.
bool of_other_build(const std::string& file, const Header& header) {
  std::optional<Header> found;
  try {
    const Store store = Store::read(file);
    if (!check_same(store, header)) found = store.header();
  } catch (const InputError&) {  // Store::write() says what is wrong
  }
  if (found) Store::write(file, *found).finish();
  return found.has_value();
}

}  // namespace

std::string shard_file(const std::string& out, const Shard& shard) {
  if (shard.count == 1) return out;
  const fs::path path(out);
  const std::string name = fmt::format("{}.shard-{}-of-{}{}", path.stem().string(), shard.index, shard.count,
                                       path.extension().string());
  return path.has_parent_path() ? (path.parent_path() / name).string() : name;
}

Outcome answer_grid(const SweepQuestion& q) {
  Desk desk(q.others, q.stop);  // first: whatever is wrong here, the others hear that there is nothing to do
  check_grid(q.header.grid, q.hooks, q.stop);
  if (q.header.shard.count > 1) return answer_apart(q, desk, shard_file(q.out, q.header.shard));
  const auto lock = WriterLock::take(q.out);
  if (!lock)
    throw InputError(fmt::format("{}: another process is writing it. Wait for it, or give another --out",
                                 printable(q.out)));
  if (of_other_build(q.out, q.header)) return answer_apart(q, desk, q.out);
  Store store = Store::write(q.out, q.header);
  return answer_missing(store, q, desk);
}

}  // namespace tandem::sweep
