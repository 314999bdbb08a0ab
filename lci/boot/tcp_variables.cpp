#include "lci/boot/tcp_variables.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "lci/base/env.hpp"
#include "lci/boot/bootstrap.hpp"
#include "lci/boot/fd.hpp"
#include "lci/boot/seal.hpp"
#include "lci/boot/wait_limit.hpp"
#include "lci/errors.hpp"

namespace lci::boot {

namespace {

namespace env = base::env;

std::string_view need(const char* variable) {
  const auto text = env::find(variable);
  if (!text) throw argument_error(std::string(variable) + " is not set");
  return *text;
}

// These are only checked for consistency; nothing is derived from them.
void check_local_variables(int size) {
  const auto rank = env::find("LOCAL_RANK");
  const auto local_size = env::find("LOCAL_WORLD_SIZE");
  int limit = size;
  if (local_size) limit = env::parse_int("LOCAL_WORLD_SIZE", *local_size, 1, size);
  if (rank) env::parse_int("LOCAL_RANK", *rank, 0, limit - 1);
}

// The address of one pair and the port of another would name an endpoint that was never meant.
void read_endpoint(tcp_variables& out) {
  std::string half;
  for (const char* prefix : {"LCT_", "LCI_", ""}) {
    const std::string address_name = std::string(prefix) + "MASTER_ADDR";
    const std::string port_name = std::string(prefix) + "MASTER_PORT";
    const auto address = env::find(address_name.c_str());
    const auto port = env::find(port_name.c_str());
    if (address && port) {
      out.source = address_name;
      out.address = *address;
      out.port = env::parse_int(port_name.c_str(), *port, 1, 65535);
      return;
    }
    if (address)
      half.append("; ").append(address_name).append(" is set without ").append(port_name);
    if (port) half.append("; ").append(port_name).append(" is set without ").append(address_name);
  }
  throw argument_error(
      "no pair MASTER_ADDR and MASTER_PORT (or with LCT_ or LCI_ before both) is set" + half);
}

constexpr const char* KEY = "LCT_PMI_TCP_KEY";
constexpr const char* KEY_FILE = "LCT_PMI_TCP_KEY_FILE";

std::string read_key_file(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    return argument_error(std::string(KEY_FILE) + " \"" + path + "\": " + why);
  };
  const base::descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat facts {};
  if (!fd || ::fstat(fd.get(), &facts) != 0) throw refuse(errno_text(errno));
  if (!S_ISREG(facts.st_mode) || facts.st_uid != ::geteuid() || (facts.st_mode & 077) != 0)
    throw refuse(
        "not a file that only its owner, who is the user of the job, can read (chmod 600)");
  char bytes[4096];
  const ssize_t n = ::read(fd.get(), bytes, sizeof bytes);
  if (n < 0) throw refuse(errno_text(errno));
  std::string secret(bytes, static_cast<std::size_t>(n));
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  return secret;
}

void read_secret(tcp_variables& out) {
  const auto text = env::find(KEY), file = env::find(KEY_FILE);
  if (!text && !file) return;
  if (text && file)
    throw argument_error(std::string(KEY) + " and " + KEY_FILE + " are set: only one may be");
  const char* const variable = text ? KEY : KEY_FILE;
  out.secret = text ? std::string(*text) : read_key_file(std::string(*file));
  if (const auto why = keys_unavailable())
    throw argument_error(std::string(variable) + " is set, and " + *why);
  if (out.secret.size() >= job_key::LEAST) return;
  throw argument_error(std::string(variable) + " holds a key of " +
                       std::to_string(out.secret.size()) + " bytes: expected " +
                       std::to_string(job_key::LEAST) + " or more (openssl rand -hex 32)");
}

}  // namespace

std::optional<tcp_variables> read_tcp_variables(std::string& why) {
  tcp_variables out;
  try {
    const std::string_view rank = need("RANK");
    out.size = env::parse_int("WORLD_SIZE", need("WORLD_SIZE"), 1, MAX_RANKS);
    out.rank = env::parse_int("RANK", rank, 0, out.size - 1);
    read_endpoint(out);
    read_secret(out);
    check_local_variables(out.size);
    out.limit = read_wait_limit("LCT_PMI_TCP_TIMEOUT_SEC");
  } catch (const argument_error& error) {
    why = error.what();
    return std::nullopt;
  }
  return out;
}

}  // namespace lci::boot
