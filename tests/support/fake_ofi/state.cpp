#include "tests/support/fake_ofi/state.hpp"

#include <netinet/in.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace lci::test {

fake_ofi_config fake_ofi_config::from_environment() {
  fake_ofi_config out;
  const char* const text = std::getenv("LCI_FAKE_OFI");
  std::istringstream words(text != nullptr ? text : "");
  for (std::string word; std::getline(words, word, ',');) {
    const std::size_t at = word.find('=');
    const std::string name = word.substr(0, at);
    const std::string value = at == std::string::npos ? "1" : word.substr(at + 1);
    const auto number = [&] { return static_cast<unsigned>(std::stoul(value)); };
    const auto has = [&](const char* part) { return value.find(part) != std::string::npos; };
    if (name == "provider") out.provider = value;
    if (name == "source") out.source = value;
    if (name == "pci") out.pci = value;
    if (name == "data_bytes") out.data_bytes = number();
    if (name == "inject") out.inject = number();
    if (name == "most") out.most = number();
    if (name == "key_bytes") out.key_bytes = number();
    if (name == "order") out.keeps_order = number() != 0;
    if (name == "delivery") out.has_delivery = number() != 0;
    if (name == "gpu") out.has_gpu_memory = number() != 0;
    if (name == "early") out.completes_early = number() != 0;
    if (name == "again") out.again = number();
    if (name == "shuffle") out.shuffle = number();
    if (name == "late") out.late = number();
    if (name == "late_messages") out.late_messages = number();
    if (name == "room") out.room = number();
    if (name == "mr")
      out.mr_mode = (has("local") ? FI_MR_LOCAL : 0) | (has("virtual") ? FI_MR_VIRT_ADDR : 0) |
                    (has("allocated") ? FI_MR_ALLOCATED : 0) | (has("own") ? FI_MR_PROV_KEY : 0) |
                    (has("endpoint") ? FI_MR_ENDPOINT : 0) | (has("gpu") ? FI_MR_HMEM : 0);
  }
  return out;
}

}  // namespace lci::test

namespace lci::test::fabric_model {

model::model() { config = fake_ofi_config::from_environment(); }

model& state() {
  static model one;
  return one;
}

void model::reset(const fake_ofi_config& wanted) {
  const std::lock_guard guard(lock);
  if (!objects.empty()) complain("reset() while objects are alive");
  config = wanted;
  calls_.clear();
  failures_.clear();
  cuts_.clear();
  collects_ = true;
  posts_ = 0;
  random_.seed(wanted.shuffle);
}

std::size_t model::live() const {
  const std::lock_guard guard(lock);
  return objects.size();
}

std::vector<fake_registration> model::gpu_registrations() const {
  const std::lock_guard guard(lock);
  std::vector<const memory_object*> all;
  for (const memory_object* one : memories)
    if (one->iface != FI_HMEM_SYSTEM) all.push_back(one);
  std::sort(all.begin(), all.end(), [](auto* a, auto* b) { return a->number < b->number; });
  std::vector<fake_registration> out;
  for (const memory_object* one : all)
    out.push_back({one->begin, one->size, one->iface, one->device, one->face.key});
  return out;
}

std::vector<std::string> model::take_complaints() {
  const std::lock_guard guard(lock);
  return std::exchange(complaints_, {});
}

std::size_t model::calls(const std::string& name) const {
  const std::lock_guard guard(lock);
  const auto at = calls_.find(name);
  return at == calls_.end() ? 0 : at->second;
}

void model::fail(const std::string& name, unsigned nth, int code, unsigned times) {
  const std::lock_guard guard(lock);
  failures_[name] = {nth, code, times};
}

void model::cut(const std::string& part, int code) {
  const std::lock_guard guard(lock);
  cuts_[part] = code;
  for (const auto& [name, one] : endpoints)
    if (cut_code(name) != 0) fail_inbox(*one, code);
}

int model::cut_code(const std::string& name) const {
  for (const auto& [part, code] : cuts_)
    if (name.find(part) != std::string::npos) return code;
  return 0;
}

int model::enter(const char* name) {
  ++calls_[name];
  const auto at = failures_.find(name);
  if (at == failures_.end() || --at->second.left != 0) return 0;
  const int code = at->second.code;
  at->second.left = 1;
  if (--at->second.times == 0) failures_.erase(at);
  return code;
}

int model::enter_post(const char* name) {
  if (const int code = enter(name); code != 0) return code;
  return config.again != 0 && ++posts_ % config.again == 0 ? -FI_EAGAIN : 0;
}

void model::complain(const std::string& what) {
  if (!collects_) {
    std::fprintf(stderr, "fake libfabric: %s\n", what.c_str());
    std::abort();
  }
  complaints_.push_back(what);
}

void model::complete(endpoint_object& at, void* context, std::uint64_t flags, std::size_t size,
                     std::uint64_t data) {
  if (context != nullptr) contexts.erase(context);
  fi_cq_data_entry one{};
  one.op_context = context;
  one.flags = flags;
  one.len = size;
  one.data = data;
  auto& done = at.queue->done;
  // What was sent may be told in any order, what has come may not.
  const bool is_free = (flags & (FI_RECV | FI_REMOTE_WRITE)) == 0;
  std::size_t place = done.size();
  if (config.shuffle != 0 && is_free) place = random_() % (done.size() + 1);
  done.insert(done.begin() + static_cast<std::ptrdiff_t>(place), one);
}

void model::complete_with(endpoint_object& at, void* context, int code) {
  if (context != nullptr) contexts.erase(context);
  fi_cq_err_entry one{};
  one.op_context = context;
  one.err = code;
  at.queue->failed.push_back(one);
}

endpoint_object* model::find(const std::string& name) {
  const auto at = endpoints.find(name);
  return at == endpoints.end() ? nullptr : at->second;
}

std::string model::address_of(const std::string& name) const {
  if (!config.has_host_names) return name + '\0';
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto number = std::stoul(name.substr(config.name_prefix.size()));
  out.sin_port = htons(static_cast<std::uint16_t>(number));
  return {reinterpret_cast<const char*>(&out), sizeof(out)};
}

std::string model::name_at(const void* address) const {
  if (!config.has_host_names) return static_cast<const char*>(address);
  sockaddr_in in{};
  std::memcpy(&in, address, sizeof(in));
  return config.name_prefix + std::to_string(ntohs(in.sin_port));
}

int model::lost_with(const endpoint_object& from, fi_addr_t to) {
  const std::string& name = from.list->names[to];
  if (const int code = cut_code(name); code != 0) return code;
  return find(name) == nullptr ? FI_ECONNREFUSED : 0;
}

memory_object* model::find_key(const endpoint_object& at, std::uint64_t key) {
  for (memory_object* one : memories) {
    const bool is_bound = (config.mr_mode & FI_MR_ENDPOINT) == 0 || one->bound == &at;
    if (one->on == at.on && one->face.key == key && one->is_enabled && is_bound) return one;
  }
  return nullptr;
}

}  // namespace lci::test::fabric_model

extern "C" __attribute__((visibility("default"))) lci::test::fake_ofi* lci_fake_ofi() {
  return &lci::test::fabric_model::state();
}
