#include "tests/unit/runtime/fake_network.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/support/failing_new/failing_new.hpp"

#if LCI_TEST_HAS_FAKE_IBV
#include "tests/support/fake_ibv/fake_ibv.hpp"
#endif
#if LCI_TEST_HAS_FAKE_OFI
#include "tests/support/fake_ofi/fake_ofi.hpp"
#endif

namespace lci::test {

const std::vector<std::string> fake_network::CALLS = {
    "ibv_get_device_list", "ibv_open_device",
    "ibv_query_device",    "ibv_query_device_ex",
    "ibv_query_port",      "ibv_query_gid",
    "ibv_query_gid_table", "ibv_alloc_pd",
    "ibv_alloc_td",        "ibv_alloc_parent_domain",
    "ibv_reg_mr",          "ibv_create_cq",
    "ibv_create_cq_ex",    "ibv_resize_cq",
    "ibv_create_srq",      "ibv_create_qp",
    "ibv_modify_qp",       "ibv_create_ah",
    "post_srq_recv",       "post_recv",
    "fi_getinfo",          "fi_fabric",
    "fi_domain",           "fi_endpoint",
    "fi_av_open",          "fi_cq_open",
    "fi_ep_bind",          "fi_enable",
    "fi_getname",          "fi_mr_regattr",
    "fi_mr_bind",          "fi_mr_enable",
    "fi_av_insert",        "fi_recv"};

bool fake_network::fail(const std::string& call, std::uint64_t n,
                        const std::function<void()>& action) {
  const std::size_t before = count(call);
  arm(call, static_cast<int>(n));
  action();
  disarm(call);
  return count(call) - before >= n;
}

namespace {

#if LCI_TEST_HAS_FAKE_IBV
class fake_verbs final : public fake_network {
 public:
  explicit fake_verbs(fake_ibv& at) : it_(at) {
    it_.call_around(&pause_failing_new, &resume_failing_new);
  }
  ~fake_verbs() override { it_.call_around(nullptr, nullptr); }
  const char* name() const override { return "ibv"; }
  std::size_t live() const override { return it_.live().all(); }

 private:
  void arm(const std::string& call, int n) override { it_.fail_nth(call, n, ENOMEM); }
  void disarm(const std::string&) override { it_.reset_failures(); }
  std::size_t count(const std::string& call) const override { return it_.count(call); }
  fake_ibv& it_;
};
#endif

#if LCI_TEST_HAS_FAKE_OFI
class fake_libfabric final : public fake_network {
 public:
  explicit fake_libfabric(fake_ofi& at) : it_(at) {
    it_.call_around(&pause_failing_new, &resume_failing_new);
  }
  ~fake_libfabric() override { it_.call_around(nullptr, nullptr); }
  const char* name() const override { return "ofi"; }
  std::size_t live() const override { return it_.live(); }

 private:
  void arm(const std::string& call, int n) override {
    it_.fail(call, static_cast<unsigned>(n), -ENOMEM);
  }
  // One that is never reached.
  void disarm(const std::string& call) override { it_.fail(call, 1u << 30, 0); }
  std::size_t count(const std::string& call) const override { return it_.calls(call); }
  fake_ofi& it_;
};
#endif

std::unique_ptr<fake_network> load(std::string_view name) {
#if LCI_TEST_HAS_FAKE_IBV
  if (name == "ibv")
    if (fake_ibv* const found = load_fake_ibv(""); found != nullptr)
      return std::make_unique<fake_verbs>(*found);
#endif
#if LCI_TEST_HAS_FAKE_OFI
  if (name == "ofi")
    if (fake_ofi* const found = load_fake_ofi(""); found != nullptr)
      return std::make_unique<fake_libfabric>(*found);
#endif
  std::fprintf(stderr, "LCI_TEST_NETWORK: there is no fake network %.*s\n",
               static_cast<int>(name.size()), name.data());
  std::abort();
}

}  // namespace

std::unique_ptr<fake_network> fake_network::wanted() {
  const char* const given = std::getenv("LCI_TEST_NETWORK");
  if (given == nullptr) return nullptr;
  const std::string_view words(given);
  auto made = load(words.substr(0, words.find('+')));
  made->has_shm_ = words.find('+') != std::string_view::npos;
  return made;
}

}  // namespace lci::test
