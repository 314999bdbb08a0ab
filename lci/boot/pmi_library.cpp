#include "lci/boot/pmi_library.hpp"

#include <algorithm>
#include <vector>

#include "lci/base/env.hpp"
#include "lci/boot/dynamic_library.hpp"
#include "lci/boot/process_mark.hpp"

namespace lci::boot {

namespace {

// As every implementation of the PMI-1 library declares them; 0 is success.
struct pmi_functions {
  int (*init)(int* spawned) = nullptr;
  int (*finalize)() = nullptr;
  int (*get_rank)(int*) = nullptr;
  int (*get_size)(int*) = nullptr;
  int (*get_my_name)(char*, int) = nullptr;
  int (*name_length)(int*) = nullptr;
  int (*value_length)(int*) = nullptr;
  int (*put)(const char*, const char*, const char*) = nullptr;
  int (*commit)(const char*) = nullptr;
  int (*barrier)() = nullptr;
  int (*get)(const char*, const char*, char*, int) = nullptr;
};

// Slurm's library loads plugins that look for its symbols in the whole program.
dynamic_library open_pmi_library() {
  return dynamic_library::open(
      {std::string(base::env::find("LCI_PMI_LIBRARY").value_or("libpmi.so.0"))}, true);
}

pmi_functions load_pmi(const dynamic_library& library) {
  pmi_functions f;
  library.need(f.init, "PMI_Init");
  library.need(f.finalize, "PMI_Finalize");
  library.need(f.get_rank, "PMI_Get_rank");
  library.need(f.get_size, "PMI_Get_size");
  library.need(f.get_my_name, "PMI_KVS_Get_my_name");
  library.need(f.name_length, "PMI_KVS_Get_name_length_max");
  library.need(f.value_length, "PMI_KVS_Get_value_length_max");
  library.need(f.put, "PMI_KVS_Put");
  library.need(f.commit, "PMI_KVS_Commit");
  library.need(f.barrier, "PMI_Barrier");
  library.need(f.get, "PMI_KVS_Get");
  return f;
}

class pmi_library_store final : public text_store {
 public:
  explicit pmi_library_store(const dynamic_library& library)
      : library_(library.name()), pmi_(load_pmi(library)) {
    int spawned = 0, name_length = 0, value_length = 0;
    check(pmi_.init(&spawned), "PMI_Init");
    check(pmi_.get_rank(&rank_), "PMI_Get_rank");
    check(pmi_.get_size(&size_), "PMI_Get_size");
    check(pmi_.name_length(&name_length), "PMI_KVS_Get_name_length_max");
    check(pmi_.value_length(&value_length), "PMI_KVS_Get_value_length_max");
    if (size_ < 1 || size_ > MAX_RANKS || rank_ < 0 || rank_ >= size_ || name_length < 1 ||
        value_length <= static_cast<int>(MIN_PIECE)) {
      throw backend_error("pmi1: " + library_ + " says rank " + std::to_string(rank_) + " of " +
                          std::to_string(size_) + ", names of " + std::to_string(name_length) +
                          " bytes and values of " + std::to_string(value_length));
    }
    std::vector<char> name(static_cast<std::size_t>(name_length) + 1, '\0');
    check(pmi_.get_my_name(name.data(), name_length), "PMI_KVS_Get_my_name");
    space_ = name.data();
    value_.resize(static_cast<std::size_t>(value_length) + 1);
  }
  ~pmi_library_store() override {
    if (is_mine_.is_ours()) pmi_.finalize();
  }
  const char* name() const noexcept override { return "pmi1"; }
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  std::size_t max_value() const noexcept override { return value_.size() - 2; }
  void put(const std::string& key, const std::string& value) override {
    check(pmi_.put(space_.c_str(), key.c_str(), value.c_str()), "PMI_KVS_Put");
  }
  void fence() override {
    check(pmi_.commit(space_.c_str()), "PMI_KVS_Commit");
    check(pmi_.barrier(), "PMI_Barrier");
  }
  std::string get(int, const std::string& key) override {
    std::fill(value_.begin(), value_.end(), '\0');
    check(pmi_.get(space_.c_str(), key.c_str(), value_.data(), static_cast<int>(value_.size()) - 1),
          "PMI_KVS_Get");
    return value_.data();
  }

 private:
  void check(int rc, const char* call) const {
    if (rc == 0) return;
    throw backend_error("pmi1: " + std::string(call) + " of " + library_ + " failed with " +
                        std::to_string(rc));
  }

  const std::string library_;
  const pmi_functions pmi_;
  const process_mark is_mine_;
  int rank_ = -1, size_ = 0;
  std::string space_;
  std::vector<char> value_;
};

}  // namespace

// Outside a job step these libraries make every process rank 0 of 1.
std::optional<std::string> pmi_library_unavailable() {
  bool inside = false;
  for (const char* variable : {"SLURM_STEP_ID", "PMI_CONTROL_PORT", "PALS_RANKID"})
    inside = inside || base::env::find(variable).has_value();
  if (!inside) return "this is no job step of Slurm or PALS";
  if (base::env::find("PMIX_RANK"))
    return "the launcher offers PMIx, and libpmi then has no server to talk to";
  const dynamic_library library = open_pmi_library();
  if (!library) return "no PMI library (LCI_PMI_LIBRARY names one): " + library.why_not();
  return std::nullopt;
}

std::unique_ptr<text_store> make_pmi_library_store() {
  const dynamic_library library = open_pmi_library();
  if (!library) throw backend_error("pmi1: " + library.why_not());
  return std::make_unique<pmi_library_store>(library);
}

}  // namespace lci::boot
