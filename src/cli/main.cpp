// The command line: exit code 0 ok, 1 failure, 2 wrong usage; errors are one line on stderr.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "cli/commands.hpp"

namespace {

int fail(int exit_code, std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::fprintf(stderr, "monotile: error: %s\n", text.c_str());
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  int exit_code = 0;
  CLI::App app("Monotile: operators of LLM inference, written once over tiles, and their engine.", "monotile");
  app.set_version_flag("--version", std::string("monotile ") + MONOTILE_VERSION, "Print the version and exit");
  app.get_formatter()->column_width(26);
  app.require_subcommand(0, 1);
  app.footer("Exit codes: 0 ok, 1 failure, 2 wrong usage, 3 refused measurement.\nMore: monotile COMMAND --help");
  try {
    monotile::cli::add_generate_command(app, exit_code);
    monotile::cli::add_inspect_command(app, exit_code);
    monotile::cli::add_devices_command(app, exit_code);
    monotile::cli::add_ops_command(app, exit_code);
    monotile::cli::add_bench_command(app, exit_code);
    monotile::cli::add_tune_command(app, exit_code);
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) return fail(2, "a command is missing; see monotile --help");
    return exit_code;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return fail(2, error.what());
  } catch (const std::bad_alloc&) {
    return fail(1, "out of host memory");
  } catch (const std::exception& error) {
    return fail(1, error.what());
  } catch (...) {
    return fail(1, "an exception of unknown type");
  }
}
