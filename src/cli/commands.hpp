#pragma once
// The subcommands of `monotile`. Each function adds one to `app`, with a callback that runs it and sets `exit_code`: 0
// ok, 1 failure. A callback may throw monotile::Error or another std::exception: main prints one line on stderr and
// exits with 1 (with 2 for CLI::ParseError, which is for wrong flags found only in the callback).

namespace CLI {
class App;
}

namespace monotile::cli {

void add_devices_command(CLI::App& app, int& exit_code);
void add_ops_command(CLI::App& app, int& exit_code);
void add_generate_command(CLI::App& app, int& exit_code);
void add_inspect_command(CLI::App& app, int& exit_code);
void add_tune_command(CLI::App& app, int& exit_code);
void add_bench_command(CLI::App& app, int& exit_code);

}  // namespace monotile::cli
