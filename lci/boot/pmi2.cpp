#include "lci/boot/pmi2.hpp"

#include <utility>

#include "lci/base/env.hpp"
#include "lci/boot/pmi_wire.hpp"
#include "lci/boot/process_mark.hpp"

namespace lci::boot {

namespace {

constexpr std::size_t PMI2_VALUE = 1023;  // the standard's 1024 with a zero at the end

pmi::fields message(const char* word) {
  pmi::fields out;
  out.add("cmd", word);
  return out;
}

class pmi2_store final : public text_store {
 public:
  pmi2_store(int fd, int rank, int size, std::chrono::milliseconds limit)
      : rank_(rank), size_(size), wire_("pmi2", fd, limit) {
    if (!wire_.agree_on(2, 0)) throw declined_error("pmi2: the launcher does not speak PMI-2");
    pmi::fields init = message("fullinit");
    if (const auto job = base::env::find("PMI_JOBID")) init.add("pmijobid", *job);
    init.add("pmirank", std::to_string(rank));
    init.add("threaded", "FALSE");
    const pmi::fields answer = wire_.ask_message(init, "fullinit-response");
    if (!answer.find_int("rank", rank, rank) || !answer.find_int("size", size, size)) {
      wire_.fail("the launcher says rank " + std::string(answer.find("rank").value_or("?")) +
                 " of " + std::string(answer.find("size").value_or("?")) + ", its variables say " +
                 std::to_string(rank) + " of " + std::to_string(size));
    }
    const pmi::fields id = wire_.ask_message(message("job-getid"), "job-getid-response");
    job_ = id.find("jobid").value_or("");
    if (job_.empty()) wire_.fail("the launcher does not say the name of the job (jobid)");
  }
  ~pmi2_store() override {
    if (is_mine_.is_ours()) wire_.part_message(message("finalize"));
  }
  const char* name() const noexcept override { return "pmi2"; }
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  std::size_t max_value() const noexcept override { return PMI2_VALUE; }
  void put(const std::string& key, const std::string& value) override {
    pmi::fields command = message("kvs-put");
    command.add("key", key);
    command.add("value", value);
    wire_.ask_message(command, "kvs-put-response");
  }
  void fence() override { wire_.ask_message(message("kvs-fence"), "kvs-fence-response", true); }
  std::string get(int rank, const std::string& key) override {
    pmi::fields command = message("kvs-get");
    command.add("jobid", job_);
    command.add("srcid", std::to_string(rank));  // a hint: which rank put it
    command.add("key", key);
    const pmi::fields answer = wire_.ask_message(command, "kvs-get-response");
    const auto found = answer.find("found") ? answer.find("found") : answer.find("flag");
    const auto value = answer.find("value");
    if (!value || (found && *found != "TRUE"))
      wire_.fail("the launcher has no value for key " + key + " of rank " + std::to_string(rank));
    return std::string(*value);
  }

 private:
  const int rank_, size_;
  const process_mark is_mine_;
  pmi::connection wire_;
  std::string job_;
};

std::unique_ptr<board> make_pmi2() {
  const pmi::place at = pmi::need_place("pmi2");
  return std::make_unique<text_board>(make_pmi2_store(at.fd, at.rank, at.size));
}

}  // namespace

std::unique_ptr<text_store> make_pmi2_store(int fd, int rank, int size,
                                            std::chrono::milliseconds limit) {
  return std::make_unique<pmi2_store>(fd, rank, size, limit);
}

std::optional<std::string> pmi2_unavailable() {
  pmi::place ignored{};
  return pmi::find_place(ignored);
}

std::unique_ptr<bootstrap> open_pmi2(board_cache& cache) {
  return open_on_board(cache, "pmi2", &make_pmi2);
}

}  // namespace lci::boot
