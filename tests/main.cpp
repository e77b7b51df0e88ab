// Runs the tests. Exit code 77 where all cases of the filter were skipped (no GPU, no model), so that ctest says so.

#include <gtest/gtest.h>

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const int status = RUN_ALL_TESTS();
  const auto& tests = *::testing::UnitTest::GetInstance();
  const bool nothing_ran = tests.successful_test_count() == 0 && tests.failed_test_count() == 0;
  return status == 0 && nothing_ran && !::testing::GTEST_FLAG(list_tests) ? 77 : status;
}
