// SPDX-License-Identifier: Apache-2.0
#include "schemes/setup/scheme.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/data.h"
#include "tests/schemes/fixtures.h"

namespace tandem::tests {
namespace {

std::string refusal(const std::string& text) {
  try {
    resolve_scheme(text, {});
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Scheme, EveryPresetCompilesAndCitesASource) {
  const auto names = list_data("schemes/presets");
  EXPECT_GE(names.size(), 20U);
  for (const std::string& name : names) {
    const ResolvedScheme s = resolve_scheme(name, {});
    EXPECT_FALSE(s.source.empty()) << name;
    EXPECT_EQ(Json::load(find_data("schemes/presets", "scheme", name)).at("name").as_text(), name);
    EXPECT_FALSE(print(compile(name, small_mlp(), {4, 1, 4})).empty()) << name;
  }
}

TEST(Scheme, UserSettingsOverrideThePreset) {
  EXPECT_EQ(resolve_scheme("pytorch-ddp", {}).options.bytes("bucket"), Bytes{25 << 20});
  const ResolvedScheme s = resolve_scheme("pytorch-ddp:bucket=1MiB", {});
  EXPECT_EQ(s.options.bytes("bucket"), Bytes{1 << 20});
  EXPECT_EQ(s.options.bytes("first-bucket"), Bytes{1 << 20});
  EXPECT_EQ(s.name, "pytorch-ddp");
  EXPECT_EQ(s.scheme->name, "allreduce");
  EXPECT_GT(s.overheads.iteration, Time{});
  EXPECT_EQ(resolve_scheme("allreduce", {}).overheads.iteration, Time{});
}

TEST(Scheme, WrongNamesAndOptionsAreAnsweredWithTheNearest) {
  EXPECT_NE(refusal("horovood").find("Did you mean horovod"), std::string::npos);
  EXPECT_NE(refusal("alreduce").find("Did you mean allreduce"), std::string::npos);
  EXPECT_NE(refusal("allreduce:buckets=1MiB").find("Did you mean bucket"), std::string::npos);
  EXPECT_NE(refusal("allreduce:algorithm=rings").find("Did you mean ring"), std::string::npos);
  EXPECT_NE(refusal("allreduce:bucket=25").find("unit"), std::string::npos);
  EXPECT_NE(refusal("local-sgd:every=0").find("outside"), std::string::npos);
  EXPECT_NE(refusal("horovod:every=2").find("no option"), std::string::npos);
}

TEST(Scheme, APresetFileIsHeldAgainstItsScheme) {
  const std::string path = testing::TempDir() + "/preset.json";
  const auto says = [&](const std::string& text) {
    write_file(path, text);
    return refusal(path);
  };
  EXPECT_EQ(says(R"({"name": "x", "summary": "s", "scheme": "allreduce", "options": {"overlap": false}})"),
            "accepted");
  EXPECT_NE(says(R"({"name": "x", "scheme": "alreduce"})").find("preset.json:1"), std::string::npos);
  EXPECT_NE(says(R"({"name": "x", "scheme": "allreduce", "options": {"bucket": 3}})").find("preset.json:1"),
            std::string::npos);
  EXPECT_NE(
      says(R"({"name": "x", "scheme": "allreduce", "overheads": {"iteration": "1ms", "colective": "1ms"}})")
          .find("collective"),
      std::string::npos);
  EXPECT_NE(says(R"({"name": "x", "scheme": "allreduce", "overheads": {"link_efficiency": 0}})")
                .find("preset.json:1"),
            std::string::npos);
  write_file(path, R"({"name": "x", "summary": "s", "scheme": "allreduce", "overheads": {"cycle": "3ms"}})");
  EXPECT_EQ(resolve_scheme(path, {}).options.time("cycle"), parse_time("3ms")) << "its former place";
  EXPECT_EQ(resolve_scheme(path + ":cycle=1ms", {}).overheads.cycle, parse_time("1ms"));
  std::filesystem::remove(path);
}

TEST(Scheme, ListsSchemesThenPresets) {
  const auto all = list_schemes();
  ASSERT_GT(all.size(), sync_registry().all().size());
  EXPECT_EQ(all[0].name, "allreduce");
  for (const SchemeEntry& e : all) EXPECT_FALSE(e.summary.empty()) << e.name;
}

/// All that a new scheme needs: a name, a summary, options and a function.
TEST(Scheme, AddingOneIsOneRegistryEntry) {
  Registry<Scheme> registry("schemes");
  registry.add({"forward-only", "no learning", {}, [](const Workload& w, const Cluster& c, const Options&) {
                  Builder b;
                  RoleBuilder r = b.role("worker", {{{"device", static_cast<int32_t>(c.devices)}}});
                  r.compute({0, 1, Pass::forward, w.layers[1].forward}, "forward");
                  return b.finish();
                }});
  const Scheme& s = registry.at("forward-only");
  const Program p = s.compile(workload(small_mlp()), {3, 1, 3}, Options(s.options, {}, "forward-only", {}));
  EXPECT_EQ(p.roles[0].mesh.size(), 3);
  EXPECT_THROW(registry.add(s), std::logic_error);
}

}  // namespace
}  // namespace tandem::tests
