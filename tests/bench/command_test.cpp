// `monotile bench` as a user runs it: exit codes and what is printed. The binary is the one built beside this test.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "bench/report.hpp"

namespace monotile::bench {
namespace {

struct Outcome {
  int exit_code;
  std::string text;  ///< both outputs
};

Outcome command(const std::string& arguments) {
  const auto binary = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "monotile";
  std::FILE* const pipe = popen(("'" + binary.string() + "' " + arguments + " 2>&1").c_str(), "r");
  Outcome outcome{-1, {}};
  std::array<char, 4096> buffer;
  while (const size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe))
    outcome.text.append(buffer.data(), count);
  outcome.exit_code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

Outcome monotile(const std::string& arguments) { return command("bench " + arguments); }

std::string file(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

std::string result_with(const std::string& name, double us) {
  Report report;
  report.environment = {{"device_name", "test"}, {"time", "2026-01-01T00:00:00Z"}, {"commit", "abc"}};
  report.ceilings.copy_gbs = report.ceilings.peak_gbs = 1000;
  Row row;
  row.op = "softmax";
  row.shape = "64x64";
  row.dtype = "f32";
  row.column = row.implementation = "portable";
  row.us = {us, us * 0.99, us * 1.01, 100};
  row.bytes = 1e6;
  report.rows = {row};
  return file(name, to_json(report).dump());
}

TEST(TuneCommand, WritesATableForThisDevice) {
  const std::string table = ::testing::TempDir() + "tuned.json";
  const Outcome o = command("tune --device cpu --a f32 --shapes 24x512x512 --out " + table);
  EXPECT_EQ(o.exit_code, 0) << o.text;
  EXPECT_NE(o.text.find("24 x    512 x    512"), std::string::npos) << o.text;
  EXPECT_NE(o.text.find("export MONOTILE_TUNING=" + table), std::string::npos) << o.text;
  std::ifstream written(table);
  const std::string text{std::istreambuf_iterator<char>(written), {}};
  EXPECT_NE(text.find("\"monotile_tuning\": 1"), std::string::npos) << text;
  EXPECT_EQ(command("ops --device cpu --json").exit_code, 0);
  EXPECT_EQ(command("tune --shapes 24x512").exit_code, 2);
  EXPECT_EQ(command("tune --a i16").exit_code, 2);
}

TEST(BenchCommand, PublishedTableIsRefused) {
  const Outcome o = monotile("ops --baseline " MONOTILE_SOURCE_DIR "/benchmarks/published/a100-table.json");
  EXPECT_EQ(o.exit_code, 3);
  EXPECT_NE(o.text.find("9 of 9 rows refused"), std::string::npos) << o.text;
}

TEST(BenchCommand, CompareFailsOnlyWhereSlower) {
  const std::string fast = result_with("fast.json", 10), slow = result_with("slow.json", 12);
  EXPECT_EQ(monotile("compare " + fast + " " + slow).exit_code, 1);
  EXPECT_EQ(monotile("compare " + slow + " " + fast).exit_code, 0);
  EXPECT_EQ(monotile("compare " + fast + " " + slow + " --fail-under 0.8").exit_code, 0);
  const Outcome broken = monotile("compare " + fast + " " + file("broken.json", "{}"));
  EXPECT_EQ(broken.exit_code, 1);
  EXPECT_NE(broken.text.find("not a result"), std::string::npos) << broken.text;
}

TEST(BenchCommand, ReportWritesPageTableAndClaims) {
  const std::string result = result_with("one.json", 10), dir = ::testing::TempDir();
  const std::string readme = file("readme.md", "before\n<!-- bench: begin -->\nold\n<!-- bench: end -->\nafter\n");
  const Outcome o =
      monotile("report " + result + " --html " + dir + "p.html --claims " + dir + "c.md --readme " + readme);
  EXPECT_EQ(o.exit_code, 0) << o.text;
  std::ifstream in(readme);
  const std::string page((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_EQ(page.find("old"), std::string::npos);
  EXPECT_NE(page.find("| softmax 64x64 f32 |"), std::string::npos) << page;
  EXPECT_NE(page.find("after"), std::string::npos);
  EXPECT_EQ(monotile("report " + result + " --readme " + file("bare.md", "no marks")).exit_code, 1);
}

TEST(BenchCommand, WrongUse) {
  EXPECT_EQ(monotile("").exit_code, 2);
  EXPECT_EQ(monotile("model").exit_code, 2);
  EXPECT_EQ(monotile("ops --op none --device cpu").exit_code, 2);
  EXPECT_EQ(monotile("ops --op softmax --shapes 1,2,3 --device cpu").exit_code, 2);
  EXPECT_EQ(monotile("ops --op softmax --shapes 1,2 --tier best").exit_code, 2);
  EXPECT_EQ(monotile("ops --op softmax --shapes 1,2 --dtype f64").exit_code, 2);
  EXPECT_EQ(monotile("ops --op no_such_operator").exit_code, 2);
}

}  // namespace
}  // namespace monotile::bench
