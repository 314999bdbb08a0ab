#include "lci/boot/tcp_variables.hpp"

#include "lci/base/env.hpp"
#include "lci/boot/bootstrap.hpp"
#include "lci/errors.hpp"

namespace lci::boot {

namespace {

namespace env = base::env;

std::string_view need(const char* variable) {
  const auto text = env::find(variable);
  if (!text) throw argument_error(std::string(variable) + " is not set");
  return *text;
}

int read_int(const char* variable, std::string_view text, int low, int high) {
  return static_cast<int>(env::parse_signed(variable, text, low, high));
}

// Only consistency is asked of them; nothing is derived from them.
void check_local_variables(int size) {
  const auto rank = env::find("LOCAL_RANK");
  const auto local_size = env::find("LOCAL_WORLD_SIZE");
  int limit = size;
  if (local_size) limit = read_int("LOCAL_WORLD_SIZE", *local_size, 1, size);
  if (rank) read_int("LOCAL_RANK", *rank, 0, limit - 1);
}

// Address of one pair and port of another would name an endpoint that nobody meant.
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
      out.port = read_int(port_name.c_str(), *port, 1, 65535);
      return;
    }
    if (address)
      half.append("; ").append(address_name).append(" is set without ").append(port_name);
    if (port) half.append("; ").append(port_name).append(" is set without ").append(address_name);
  }
  throw argument_error(
      "no pair MASTER_ADDR and MASTER_PORT (or with LCT_ or LCI_ before both) is set" + half);
}

}  // namespace

std::optional<tcp_variables> read_tcp_variables(std::string& why) {
  tcp_variables out;
  try {
    const std::string_view rank = need("RANK");
    out.size = read_int("WORLD_SIZE", need("WORLD_SIZE"), 1, MAX_RANKS);
    out.rank = read_int("RANK", rank, 0, out.size - 1);
    read_endpoint(out);
    check_local_variables(out.size);
    if (const auto limit = env::find("LCT_PMI_TCP_TIMEOUT_SEC"))
      out.limit = std::chrono::seconds(read_int("LCT_PMI_TCP_TIMEOUT_SEC", *limit, 1, 86400));
  } catch (const argument_error& error) {
    why = error.what();
    return std::nullopt;
  }
  return out;
}

}  // namespace lci::boot
