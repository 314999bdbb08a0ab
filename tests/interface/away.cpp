#include "away.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <type_traits>

namespace interface_test {
namespace {

struct row_t {
  const char* name;
  const char* text;
};

// null: stays as it is, for the reason beside it.
constexpr row_t ROWS[] = {
    {"packet_return_threshold", "1"},
    {"imm_nbits_tag", "12"},
    {"imm_nbits_rcomp", "11"},
    {"rdv_protocol", "write"},
    {"gpu_resident", nullptr},  // an error where there is no GPU
    {"gpu_gdrcopy", "off"},
    {"gpu_proxy", "thread"},
    {"gpu_tier", "proxy"},
    {"max_handler_depth", "5"},
    {"max_handler_wait_s", "600"},
    {"failure_notice", "all"},
    // The suite is about the default resources.
    {"alloc_default_device", nullptr},
    {"alloc_default_packet_pool", nullptr},
    {"alloc_default_matching_engine", nullptr},
    {"alloc_default_endpoint", nullptr},
    {"packet_size", "4096"},
    {"npackets", "2048"},
    {"matching_engine_type", "queue"},
    {"sync_threshold", "3"},
    {"zero_copy_am", nullptr},  // the handlers of the suite free what they are given
    {"cq_type", "array_atomic"},
    {"cq_default_length", "8192"},
    // Who runs the suite chooses the network.
    {"backend", nullptr},
    {"ofi_provider_name", nullptr},
    {"shm_enable", nullptr},
    {"device_name", nullptr},
    {"max_msg_size", "1000000"},
    {"max_inject_size", "32"},
    {"ibv_gid_idx", nullptr},  // has to be one that the card knows
    {"ibv_force_gid_auto_select", "1"},
    {"ibv_odp_strategy", nullptr},  // an error where the card has none
    {"ibv_prefetch_strategy", "prefetch"},
    {"use_dmabuf", "0"},
    {"shm_single_copy", "0"},
    {"shm_pipelined_copy", nullptr},  // one of the two ways has to be there
    {"shm_single_copy_min", "65536"},
    {"gpu_path", "staged"},
    {"check_pointers", LCI_CHECK_POINTERS_DEFAULT ? "0" : "1"},
    {"net_max_sends", "48"},
    {"net_max_recvs", "1024"},
    {"net_max_cqes", "2048"},
    {"net_send_reserved_pct", "0.5"},
    {"ofi_lock_mode", "all"},
    {"alloc_progress_endpoint", "1"},
    {"use_reg_cache", LCI_USE_REG_CACHE ? "0" : "1"},
    {"shm_ring_size", "32768"},
    {"shm_slot_size", "256"},
    {"shm_producer_cas_attempts", "1"},
    {"shm_consumer_cas_attempts", "3"},
    {"shm_max_polls", "2"},
    {"ibv_td_strategy", "none"},
};

std::string variable_of(const std::string& name) {
  if (name == "ofi_lock_mode") return "LCI_NET_LOCK_MODE";
  std::string variable = "LCI_ATTR_";
  for (const char c : name) variable += static_cast<char>(std::toupper(c));
  return variable;
}

// What a setting is, as text that two of a kind can be compared by.
class texts_of {
 public:
  template <class T>
  void operator()(const char* name, const T& value) {
    std::ostringstream text;
    if constexpr (std::is_enum_v<T>) {
      text << static_cast<long>(value);
    } else {
      text << value;
    }
    all[name] = text.str();
  }
  std::map<std::string, std::string> all;
};

texts_of texts(lci::global_attr_t attr) {
  texts_of out;
  attr.for_each(out);
  return out;
}

}  // namespace

void set_attributes_away() {
  for (const row_t& row : ROWS) {
    if (row.text != nullptr) setenv(variable_of(row.name).c_str(), row.text, 1);
  }
}

std::string near_attributes() {
  const texts_of built_in = texts({}), now = texts(lci::get_g_default_attr());
  std::string near;
  for (const auto& entry : built_in.all) {
    const std::string &name = entry.first, &text = entry.second;
    const row_t* const row = std::find_if(std::begin(ROWS), std::end(ROWS),
                                          [&](const row_t& r) { return name == r.name; });
    if (row == std::end(ROWS))
      near += " " + name + " (unknown here)";
    else if (row->text != nullptr && now.all.at(name) == text)
      near += " " + name;
  }
  return near;
}

}  // namespace interface_test
