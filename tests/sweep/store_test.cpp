// SPDX-License-Identifier: Apache-2.0
// Files that a sweep cannot go on with, and files that do not belong together: one message each.
#include "sweep/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sweep/sweep.h"
#include "tests/sweep/grids.h"

namespace tandem::tests {
namespace {

using sweep::Store;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Given tiny_grid() {
  return {{"model", "lenet5"}, {"system", "dgx1-v100"}, {"devices", "1,2"}, {"batch", "8,16,32"}};
}

/// What answering a grid into the file says.
std::string said_of(const std::string& file, const Given& options = tiny_grid()) {
  return refusal_of([&] { sweep::answer_grid(sweep_of(options, file)); });
}

void change(const std::string& file, const std::string& sql) {
  sweep::Database(file, sweep::Database::Mode::write).run(sql);
}

TEST(Files, OfOtherProgramsAreLeftAlone) {
  const SweepFolder folder;
  const std::string text = folder.file("notes.txt");
  const std::string words(5000, 'x');
  std::ofstream(text) << words;
  EXPECT_THAT(said_of(text), HasSubstr("notes.txt: file is not a database: no sweep of Tandem"));
  std::ifstream again(text);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(again), {}), words);

  const std::string other = folder.file("other.sqlite");
  change(other, "CREATE TABLE theirs (a)");
  EXPECT_THAT(said_of(other), HasSubstr("no sweep of Tandem"));
  EXPECT_THAT(refusal_of([&] { Store::read(other); }), HasSubstr("no sweep of Tandem"));
}

TEST(Files, ThatAreMissingOrFoldersAreNamed) {
  const SweepFolder folder;
  EXPECT_THAT(refusal_of([&] { Store::read(folder.file("none.sqlite")); }),
              HasSubstr("none.sqlite: no such file"));
  EXPECT_THAT(refusal_of([&] { Store::read(folder.file("")); }), HasSubstr("is a folder"));
  EXPECT_THAT(said_of("/proc/grid.sqlite"), HasSubstr("/proc/grid.sqlite: cannot write"));
  EXPECT_THAT(said_of(folder.file("none/grid.sqlite")), HasSubstr("cannot write"));
}

TEST(Files, OfAnotherSchemaOrGridAreRefused) {
  const SweepFolder folder;
  const std::string file = folder.file("grid.sqlite");
  ASSERT_EQ(said_of(file), "");
  Given options = tiny_grid();
  options.back().second = "8,16";
  EXPECT_THAT(said_of(file, options), HasSubstr("its batch is 8,16,32, not 8,16"));
  options.back() = {"seed", "7"};
  EXPECT_THAT(said_of(file, options), HasSubstr("does not ask about seed"));
  options.pop_back();
  EXPECT_THAT(said_of(file, options), HasSubstr("asks about batch too"));
  sweep::SweepQuestion q = sweep_of(tiny_grid(), file);
  q.header.depth = "report";
  EXPECT_THAT(refusal_of([&] { sweep::answer_grid(q); }), HasSubstr("its depth is rate, not report"));
  EXPECT_EQ(said_of(file), "");
  change(file, "PRAGMA user_version = 3");
  EXPECT_THAT(said_of(file), HasSubstr("schema 3; this one has 2"));
  EXPECT_THAT(refusal_of([&] { Store::read(file); }), HasSubstr("Sweep again, with another --out"));
}

TEST(Files, OfAnotherBuildAreAnsweredAgainAndReplacedAtTheEnd) {
  const SweepFolder folder;
  const std::string file = folder.file("grid.sqlite");
  ASSERT_EQ(said_of(file), "");
  const std::string before = csv_of(file);
  change(file, "UPDATE cells SET samples_per_second = 17");
  sweep::SweepQuestion q = sweep_of(tiny_grid(), file, 1);
  q.header.build = "another build";
  std::string noted;
  q.hooks.note = [&](std::string_view note) { noted += note; };
  std::atomic<bool> stop{true};
  q.stop = &stop;
  EXPECT_FALSE(sweep::answer_grid(q).complete);
  EXPECT_THAT(noted, HasSubstr("tandem a build answered it, this is another build"));
  EXPECT_EQ(Store::read(file).header().build, "a build");
  EXPECT_THAT(csv_of(file), HasSubstr(",17,"));
  stop = false;
  const sweep::Outcome done = sweep::answer_grid(q);
  EXPECT_TRUE(done.complete);
  EXPECT_EQ(done.file, file);
  EXPECT_EQ(Store::read(file).header().build, "another build");
  EXPECT_EQ(csv_of(file), before);
  EXPECT_THAT(folder.names(), ElementsAre("grid.sqlite"));
}

/// What reading all of a file says.
std::string reading(const std::string& file) {
  return refusal_of([&] { csv_of(file); });
}

TEST(Files, OfAStrangerAreReadOrRefused) {
  const SweepFolder folder;
  const std::string whole = folder.file("whole.sqlite"), file = folder.file("grid.sqlite");
  ASSERT_EQ(said_of(whole), "");
  const auto changed = [&](const std::string& sql) {
    std::filesystem::copy_file(whole, file, std::filesystem::copy_options::overwrite_existing);
    change(file, sql);
    return reading(file);
  };
  const auto grid = [&](const std::string& from, const std::string& to) {
    return changed("UPDATE sweep SET value = replace(value, '" + from + "', '" + to +
                   "') WHERE key = 'grid'");
  };
  EXPECT_EQ(changed("CREATE TABLE notes (a); ALTER TABLE cells ADD COLUMN note"), "");
  for (const char* set :
       {"position = position + 100", "position = -1 - position", "position = 'x' || position", "status = 'x'",
        "samples_per_second = 'x'", "samples_per_second = 9e999", "memory_bytes = 1e300"})
    EXPECT_THAT(changed(std::string("UPDATE cells SET ") + set),
                HasSubstr("is what no sweep writes: the file is damaged"))
        << set;
  for (const char* set : {"value = '' WHERE key = 'grid'", "value = '[]' WHERE key = 'grid'",
                          "value = 'deep' WHERE key = 'depth'", "value = '9/3' WHERE key = 'shard'"})
    EXPECT_THAT(changed(std::string("UPDATE sweep SET ") + set), HasSubstr("the table \"sweep\" is damaged"))
        << set;
  EXPECT_THAT(grid("\"option\":\"batch\"", "\"option\":\"b\""), HasSubstr("is damaged"));
  EXPECT_THAT(grid("\"path\":\"\"", "\"path\":\"a-long-path\""), HasSubstr("is damaged"));
  EXPECT_THAT(grid("\"batch\":{", "\"hash\":{"), HasSubstr("is damaged"));
  EXPECT_THAT(changed("ALTER TABLE cells RENAME COLUMN batch TO b"), HasSubstr("no such column: batch"));
  EXPECT_THAT(changed("ALTER TABLE cells RENAME TO c; CREATE VIEW cells AS SELECT * FROM c"),
              HasSubstr("grid.sqlite: "));  // a view could be endless
}

TEST(Files, ThatAreDamagedSaySo) {
  const SweepFolder folder;
  const std::string file = folder.file("grid.sqlite");
  ASSERT_EQ(said_of(file), "");
  const auto size = std::filesystem::file_size(file);
  for (const std::uintmax_t left : {size / 2, size - 4096, std::uintmax_t{4096}, std::uintmax_t{50}}) {
    const std::string cut = folder.file("cut.sqlite");
    std::filesystem::copy_file(file, cut, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(cut, left);
    EXPECT_THAT(said_of(cut), HasSubstr("cut.sqlite: ")) << left;
  }
  {
    std::fstream in(file, std::ios::in | std::ios::out | std::ios::binary);
    in.seekp(4096 + 8);
    in << std::string(3000, '\x5a');
  }
  EXPECT_THAT(said_of(file), HasSubstr("damaged"));
  change(folder.file("empty"), "VACUUM");
  EXPECT_EQ(said_of(folder.file("empty")), "");  // killed before its first word: begun again
}

TEST(Merge, KeepsEqualCellsOnceAndNamesBothFilesOfUnequalOnes) {
  const SweepFolder folder;
  const std::string a = folder.file("a.sqlite"), b = folder.file("b.sqlite"), all = folder.file("all.sqlite");
  ASSERT_EQ(said_of(a), "");
  ASSERT_EQ(said_of(b), "");
  EXPECT_EQ(sweep::merge({a, b, a}, all).done, 6);
  EXPECT_EQ(csv_of(all), csv_of(a));
  change(b, "UPDATE cells SET samples_per_second = 17 WHERE position = 3");
  EXPECT_THAT(
      refusal_of([&] {
        sweep::merge({a, b}, folder.file("other.sqlite"));
      }),
      AllOf(HasSubstr("a.sqlite and "), HasSubstr("b.sqlite: cell 3 is not the same: samples_per_second is "),
            HasSubstr(" and 17")));
  EXPECT_FALSE(std::filesystem::exists(folder.file("other.sqlite")));
  EXPECT_THAT(refusal_of([&] { sweep::merge({b}, all); }), HasSubstr("cell 3"));  // nor into what is there
  EXPECT_EQ(csv_of(all), csv_of(a));
}

TEST(Merge, CountsWhatIsMissing) {
  const SweepFolder folder;
  std::vector<std::string> files;
  for (int64_t i = 0; i < 3; ++i) {
    sweep::SweepQuestion q = sweep_of(tiny_grid(), folder.file("grid.sqlite"));
    q.header.shard = {i, 3};
    files.push_back(sweep::answer_grid(q).file);
  }
  const std::string all = folder.file("all.sqlite");
  EXPECT_EQ(sweep::merge({files[0], files[2]}, all).done, 4);
  Store store = Store::read(all);
  EXPECT_THAT(sweep::missing_shards(store, 3), ElementsAre("2 of shard 1/3"));
  EXPECT_EQ(sweep::merge({files[1]}, all).done, 6);  // with what was there
  Given other = tiny_grid();
  other.back().second = "8";
  ASSERT_EQ(said_of(folder.file("other.sqlite"), other), "");
  EXPECT_THAT(refusal_of([&] {
                sweep::merge({all, folder.file("other.sqlite")}, folder.file("x"));
              }),
              HasSubstr("other.sqlite: is of another sweep than"));
}

}  // namespace
}  // namespace tandem::tests
