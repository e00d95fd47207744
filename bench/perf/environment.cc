#include "environment.h"

#include <strings.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>

namespace terse::perf {
namespace {

struct Launcher {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

// The first whose rank variable is set counts. Open MPI sets PMIX_RANK too, and mpirun may itself
// run inside a Slurm job: the more particular names come first.
constexpr std::array<Launcher, 5> kLaunchers = {{
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"PMIX_RANK", "SLURM_NTASKS", "SLURM_LOCALID", nullptr},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr},
}};

// Set for the program that restart_with_nccl starts.
constexpr const char* kChosen = "PERF_NCCL_IS_CHOSEN";

int read_number(GetEnv get, const char* name, long low, long high) {
  const char* text = get(name);
  char* end = nullptr;
  errno = 0;
  const long number = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || errno != 0 || number < low || number > high) {
    throw std::invalid_argument(std::string(name) + "=" + text + " is not a number from " +
                                std::to_string(low) + " to " + std::to_string(high));
  }
  return static_cast<int>(number);
}

std::optional<int> read_if_set(GetEnv get, const char* name, long low, long high) {
  if (name == nullptr || get(name) == nullptr) return std::nullopt;
  return read_number(get, name, low, high);
}

struct Split {
  const char* name;
  bool divides;
  int (*color)(int process, int value);
};

constexpr auto kAnd = [](int process, int value) { return process & value; };
constexpr auto kOr = [](int process, int value) { return process | value; };
constexpr auto kMod = [](int process, int value) { return process % value; };
constexpr auto kDiv = [](int process, int value) { return process / value; };
constexpr std::array<Split, 8> kSplits = {{{"AND", false, kAnd},
                                           {"&", false, kAnd},
                                           {"OR", false, kOr},
                                           {"|", false, kOr},
                                           {"MOD", true, kMod},
                                           {"%", true, kMod},
                                           {"DIV", true, kDiv},
                                           {"/", true, kDiv}}};

// Decimal, 0x or 0b where `base` is 0. `whole` is what the message shows.
int read_value(const char* name, const char* whole, const char* text, int base) {
  while (std::isspace(static_cast<unsigned char>(*text)) != 0) ++text;
  const bool binary = base == 0 && strncasecmp(text, "0b", 2) == 0;
  const char* const digits = binary ? text + 2 : text;
  char* end = nullptr;
  const unsigned long value = std::strtoul(digits, &end, binary ? 2 : base);
  if (end == digits || *end != '\0' || value > 0x7fffffff) {
    throw std::invalid_argument(std::string(name) + "=" + whole + ": its number is not one");
  }
  return static_cast<int>(value);
}

// torchrun's agent keeps the store on MASTER_PORT itself.
bool agent_has_port(GetEnv get) {
  const char* text = get("TORCHELASTIC_USE_AGENT_STORE");
  return text != nullptr && std::strcmp(text, "True") == 0;
}

bool starts_with(const char* text, const char* prefix) {
  return std::strncmp(text, prefix, std::strlen(prefix)) == 0;
}

void prepend(const char* name, const std::string& value) {
  const char* old = std::getenv(name);
  const std::string all = old != nullptr && *old != '\0' ? value + ":" + old : value;
  setenv(name, all.c_str(), 1);
}

void append(const char* name, const std::string& value) {
  const char* old = std::getenv(name);
  const std::string all = old != nullptr && *old != '\0' ? std::string(old) + ":" + value : value;
  setenv(name, all.c_str(), 1);
}

}  // namespace

Launch read_launch(GetEnv get) {
  Launch launch;
  for (const Launcher& launcher : kLaunchers) {
    if (get(launcher.rank) == nullptr) continue;
    if (get(launcher.size) == nullptr) {
      throw std::invalid_argument(std::string(launcher.rank) + " is set but " + launcher.size +
                                  " is not");
    }
    launch.processes = read_number(get, launcher.size, 1, 1 << 20);
    launch.process = read_number(get, launcher.rank, 0, launch.processes - 1);
    launch.local_processes = read_if_set(get, launcher.local_size, 1, launch.processes);
    launch.local_process = read_if_set(get, launcher.local_rank, 0,
                                       launch.local_processes.value_or(launch.processes) - 1);
    launch.launcher = std::string(launcher.rank) + "/" + launcher.size;
    break;
  }
  if (const char* address = get("MASTER_ADDR")) launch.address = address;
  if (get("MASTER_PORT") != nullptr) {
    launch.port = read_number(get, "MASTER_PORT", 1, 65534) + (agent_has_port(get) ? 1 : 0);
  }
  return launch;
}

Launch read_launch() {
  return read_launch([](const char* name) -> const char* { return std::getenv(name); });
}

int group_color(int process, GetEnv get) {
  if (const char* const mask = get("NCCL_TESTS_SPLIT_MASK")) {
    return process & read_value("NCCL_TESTS_SPLIT_MASK", mask, mask, 16);
  }
  const char* const text = get("NCCL_TESTS_SPLIT");
  if (text == nullptr) return 0;
  for (const Split& split : kSplits) {
    const std::size_t length = std::strlen(split.name);
    if (strncasecmp(text, split.name, length) != 0) continue;
    const int value = read_value("NCCL_TESTS_SPLIT", text, text + length, 0);
    if (split.divides && value == 0) break;
    return split.color(process, value);
  }
  throw std::invalid_argument(std::string("NCCL_TESTS_SPLIT=") + text +
                              " is not AND, OR, MOD or DIV (& | % /) and a number");
}

int group_color(int process) {
  return group_color(process, [](const char* name) -> const char* { return std::getenv(name); });
}

std::optional<int> first_device() {
  constexpr const char* kName = "NCCL_TESTS_DEVICE";
  const auto get = [](const char* name) -> const char* { return std::getenv(name); };
  return read_if_set(get, kName, 0, 1 << 20);
}

std::optional<double> min_busbw() {
  constexpr const char* kName = "NCCL_TESTS_MIN_BW";
  const char* const text = std::getenv(kName);
  if (text == nullptr) return std::nullopt;
  char* end = nullptr;
  const double least = std::strtod(text, &end);
  if (end != text && *end == '\0' && least >= 0) return least;
  throw std::invalid_argument(std::string(kName) + "=" + text + " is not a bandwidth in GB/s");
}

std::vector<std::string> run_environment() {
  constexpr std::array<const char*, 6> kPrefixes = {"NCCL_",  "HOSTNCCL_",   "UCX_",
                                                    "TERSE_", "LD_PRELOAD=", "LD_LIBRARY_PATH="};
  std::vector<std::string> found;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    for (const char* prefix : kPrefixes) {
      if (starts_with(*variable, prefix)) found.emplace_back(*variable);
    }
  }
  return found;
}

void set_nccl_host_id(int process) {
  setenv("NCCL_HOSTID", ("terse-perf-" + std::to_string(process)).c_str(), 0);
}

static std::string text_of(const char* name) {
  const char* const text = std::getenv(name);
  return text != nullptr ? text : "";
}

std::string nccl_host_id() { return text_of("NCCL_HOSTID"); }

std::string terse_node() { return text_of("TERSE_NODE"); }

bool nccl_is_chosen() { return std::getenv(kChosen) != nullptr; }

void restart_with_nccl(const std::string& library, const std::vector<std::string>& arguments) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path path = fs::absolute(library, error);
  if (fs::is_directory(path, error)) {
    if (!fs::exists(path / "libnccl.so.2", error)) {
      throw std::invalid_argument("--nccl " + library + ": no libnccl.so.2 in this directory");
    }
    prepend("LD_LIBRARY_PATH", path.string());
  } else if (!fs::exists(path, error)) {
    throw std::invalid_argument("--nccl " + library + ": no such file or directory");
  } else if (path.filename() == "libnccl.so.2") {
    prepend("LD_LIBRARY_PATH", path.parent_path().string());
  } else {
    // Under another name the loader would not take it for libnccl.so.2. Preloaded last, it comes
    // before the linked one and after whatever else is preloaded.
    append("LD_PRELOAD", path.string());
  }
  setenv(kChosen, "1", 1);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv("/proc/self/exe", argv.data());
  throw std::runtime_error(std::string("--nccl: restart failed: ") + std::strerror(errno));
}

}  // namespace terse::perf
