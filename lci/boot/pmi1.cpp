#include "lci/boot/pmi1.hpp"

#include <algorithm>
#include <utility>

#include "lci/boot/pmi_library.hpp"
#include "lci/boot/pmi_wire.hpp"
#include "lci/boot/process_mark.hpp"

namespace lci::boot {

namespace {

// Some clients and servers hold a whole line in 1024 bytes, whatever they say about values.
constexpr std::size_t LINE = 1000;

pmi::fields line_command(const char* word) {
  pmi::fields out;
  out.add("cmd", word);
  return out;
}

class pmi1_store final : public text_store {
 public:
  pmi1_store(int fd, int rank, int size, std::chrono::milliseconds limit)
      : rank_(rank), size_(size), wire_("pmi1", fd, limit) {
    if (!wire_.agree_on(1, 1)) throw declined_error("pmi1: the launcher does not speak PMI-1");
    const pmi::fields maxes = wire_.ask_line(line_command("get_maxes"), "maxes");
    const auto value = maxes.find_int("vallen_max", 1, 1 << 20);
    if (!value) wire_.fail("the launcher does not say how long a value may be (vallen_max)");
    const pmi::fields mine = wire_.ask_line(line_command("get_my_kvsname"), "my_kvsname");
    space_ = mine.find("kvsname").value_or("");
    if (space_.empty()) wire_.fail("the launcher does not say its key space (kvsname)");
    const std::size_t around = space_.size() + sizeof "cmd=put kvsname= key= value=" + 40;
    const std::size_t line = around < LINE ? LINE - around : 0;
    most_ = std::min(static_cast<std::size_t>(*value) - 1, line);
    if (most_ < MIN_PIECE) {
      wire_.fail("the launcher takes values of " + std::to_string(*value) +
                 " bytes only (vallen_max), in a key space with a name of " +
                 std::to_string(space_.size()));
    }
  }
  ~pmi1_store() override {
    if (is_mine_.is_ours()) wire_.part_line(line_command("finalize"));
  }
  const char* name() const noexcept override { return "pmi1"; }
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  std::size_t max_value() const noexcept override { return most_; }
  void put(const std::string& key, const std::string& value) override {
    pmi::fields command = about("put", key);
    command.add("value", value);
    wire_.ask_line(command, "put_result");
  }
  void fence() override { wire_.ask_line(line_command("barrier_in"), "barrier_out", true); }
  std::string get(int, const std::string& key) override {
    const pmi::fields answer = wire_.ask_line(about("get", key), "get_result");
    const auto value = answer.find("value");
    if (!value) wire_.fail("the launcher's answer about key " + key + " has no value");
    return std::string(*value);
  }

 private:
  pmi::fields about(const char* word, const std::string& key) const {
    pmi::fields out = line_command(word);
    out.add("kvsname", space_);
    out.add("key", key);
    return out;
  }

  const int rank_, size_;
  const process_mark is_mine_;
  pmi::connection wire_;
  std::string space_;
  std::size_t most_ = 0;
};

std::unique_ptr<board> make_pmi1() {
  pmi::place at{};
  if (!pmi::find_place(at))
    return std::make_unique<text_board>(make_pmi1_store(at.fd, at.rank, at.size));
  return std::make_unique<text_board>(make_pmi_library_store());
}

}  // namespace

std::unique_ptr<text_store> make_pmi1_store(int fd, int rank, int size,
                                            std::chrono::milliseconds limit) {
  return std::make_unique<pmi1_store>(fd, rank, size, limit);
}

std::optional<std::string> pmi1_unavailable() {
  pmi::place ignored{};
  const auto wire = pmi::find_place(ignored);
  if (!wire) return std::nullopt;
  const auto library = pmi_library_unavailable();
  if (!library) return std::nullopt;
  return *wire + "; " + *library;
}

std::unique_ptr<bootstrap> open_pmi1(board_cache& cache) {
  return open_on_board(cache, "pmi1", &make_pmi1);
}

}  // namespace lci::boot
