#include "lci/boot/pmix.hpp"

#include <cstdlib>
#include <cstring>

#include "lci/base/env.hpp"
#include "lci/boot/dynamic_library.hpp"
#include "lci/boot/pmix_abi.hpp"

namespace lci::boot {

namespace {

namespace abi = pmix_abi;

// Put before each sheet: some versions do not carry empty values.
constexpr char PMIX_MARK = 'L';
constexpr int PMIX_GET_LIMIT_S = 60;

dynamic_library open_pmix_library() {
  return dynamic_library::open(
      {std::string(base::env::find("LCI_PMIX_LIBRARY").value_or("libpmix.so.2"))});
}

abi::functions load_pmix(const dynamic_library& library) {
  abi::functions f;
  library.need(f.init, "PMIx_Init");
  library.need(f.finalize, "PMIx_Finalize");
  library.need(f.put, "PMIx_Put");
  library.need(f.commit, "PMIx_Commit");
  library.need(f.fence, "PMIx_Fence");
  library.need(f.get, "PMIx_Get");
  library.need(f.error_string, "PMIx_Error_string");
  return f;
}

abi::info make_info(const char* key, std::uint16_t type) {
  abi::info out{};
  std::strncpy(out.key, key, abi::MAX_NAME);
  out.value.type = type;
  return out;
}

class pmix_board final : public board {
 public:
  explicit pmix_board(const dynamic_library& library)
      : library_(library.name()), pmix_(load_pmix(library)) {
    check(pmix_.init(&self_, nullptr, 0), "PMIx_Init");
    size_ = read_size();
    if (size_ < 1 || size_ > MAX_RANKS || self_.rank >= static_cast<std::uint32_t>(size_)) {
      throw backend_error("pmix: the launcher says rank " + std::to_string(self_.rank) + " of " +
                          std::to_string(size_));
    }
  }
  ~pmix_board() override {
    if (is_ours()) pmix_.finalize(nullptr, 0);
  }
  const char* name() const noexcept override { return "pmix"; }
  int rank() const noexcept override { return static_cast<int>(self_.rank); }
  int size() const noexcept override { return size_; }

  void exchange(unsigned round, const std::string& sheet) override {
    std::string bytes = PMIX_MARK + sheet;
    abi::value v{};
    v.type = abi::TYPE_BYTES;
    v.data.bytes = {bytes.data(), bytes.size()};
    check(pmix_.put(abi::SCOPE_GLOBAL, key_of(round).c_str(), &v), "PMIx_Put");
    check(pmix_.commit(), "PMIx_Commit");
    abi::info collect = make_info(abi::COLLECT_DATA, abi::TYPE_BOOL);
    collect.value.data.flag = true;
    const abi::proc all = member(abi::RANK_WILDCARD);
    check(pmix_.fence(&all, 1, &collect, 1), "PMIx_Fence");
  }

  std::string read(int rank, unsigned round) override {
    abi::value* v = get(static_cast<std::uint32_t>(rank), key_of(round));
    std::string bytes;
    const bool right = v->type == abi::TYPE_BYTES && v->data.bytes.size > 0;
    if (right) bytes.assign(v->data.bytes.bytes, v->data.bytes.size);
    if (v->type == abi::TYPE_BYTES) std::free(v->data.bytes.bytes);
    std::free(v);
    if (!right || bytes[0] != PMIX_MARK) {
      throw backend_error("pmix: what rank " + std::to_string(rank) + " had put before fence " +
                          std::to_string(round) + " came back as something else");
    }
    return bytes.substr(1);
  }

 private:
  static std::string key_of(unsigned round) { return "lci-" + std::to_string(round); }
  abi::proc member(std::uint32_t rank) const {
    abi::proc out = self_;
    out.rank = rank;
    return out;
  }
  int read_size() const {
    abi::value* v = get(abi::RANK_WILDCARD, abi::JOB_SIZE);
    const std::uint32_t size = v->type == abi::TYPE_UINT32 ? v->data.uint32 : 0;
    std::free(v);
    return size <= static_cast<std::uint32_t>(MAX_RANKS) ? static_cast<int>(size) : 0;
  }
  // Never null.
  abi::value* get(std::uint32_t rank, const std::string& key) const {
    const abi::proc whose = member(rank);
    abi::info limit = make_info(abi::TIMEOUT, abi::TYPE_INT);
    limit.value.data.integer = PMIX_GET_LIMIT_S;
    abi::value* v = nullptr;
    const std::string call = "PMIx_Get of " + key;
    check(pmix_.get(&whose, key.c_str(), &limit, 1, &v), call.c_str());
    if (v == nullptr) throw backend_error("pmix: " + call + " returned no value");
    return v;
  }
  void check(int rc, const char* call) const {
    if (rc == abi::SUCCESS) return;
    const char* const text = pmix_.error_string(rc);
    throw backend_error("pmix: " + std::string(call) + " of " + library_ + " failed: " +
                        (text != nullptr ? text : "?") + " [" + std::to_string(rc) + "]");
  }

  const std::string library_;
  const abi::functions pmix_;
  abi::proc self_{};
  int size_ = 0;
};

std::unique_ptr<board> make_pmix() {
  const dynamic_library library = open_pmix_library();
  if (!library) throw backend_error("pmix: " + library.why_not());
  return std::make_unique<pmix_board>(library);
}

}  // namespace

std::optional<std::string> pmix_unavailable() {
  if (!base::env::find("PMIX_RANK")) return "PMIX_RANK is not set";
  const dynamic_library library = open_pmix_library();
  if (!library) {
    return "PMIX_RANK is set, and there is no PMIx library (install libpmix2, or let "
           "LCI_PMIX_LIBRARY name it): " +
           library.why_not();
  }
  return std::nullopt;
}

std::unique_ptr<bootstrap> open_pmix(board_cache& cache) {
  return open_on_board(cache, "pmix", &make_pmix);
}

}  // namespace lci::boot
