#include "lci/boot/mpi_library.hpp"

#include <string_view>

#include "lci/base/env.hpp"
#include "lci/boot/dynamic_library.hpp"
#include "lci/errors.hpp"

namespace lci::boot {

namespace {

constexpr int MPI_SERIALIZED = 2;  // MPI_THREAD_SERIALIZED, in all families

// The functions that lci calls, with the family's handle type.
template <class Handle>
class mpi_shim final : public mpi_library {
 public:
  mpi_shim(const dynamic_library& from, Handle world, Handle bytes, Handle number)
      : name_(from.name()), world_(world), bytes_(bytes), number_(number) {
    from.need(initialized_, "MPI_Initialized");
    from.need(finalized_, "MPI_Finalized");
    from.need(init_, "MPI_Init_thread");
    from.need(finalize_, "MPI_Finalize");
    from.need(dup_, "MPI_Comm_dup");
    from.need(free_, "MPI_Comm_free");
    from.need(rank_, "MPI_Comm_rank");
    from.need(size_, "MPI_Comm_size");
    from.need(allgather_, "MPI_Allgather");
    from.need(allgatherv_, "MPI_Allgatherv");
  }
  bool is_active() const override {
    int flag = 0;
    return initialized_(&flag) == 0 && flag != 0 && !is_over();
  }
  bool is_over() const override {
    int flag = 0;
    return finalized_(&flag) == 0 && flag != 0;
  }
  void start() override {
    if (is_over()) throw backend_error("mpi: MPI_Finalize was called before lci was initialized");
    if (!is_active()) {
      int provided = 0;
      check(init_(nullptr, nullptr, MPI_SERIALIZED, &provided), "MPI_Init_thread");
      is_started_ = true;
    }
    check(dup_(world_, &ours_), "MPI_Comm_dup");
  }
  int rank() const override {
    int out = -1;
    check(rank_(ours_, &out), "MPI_Comm_rank");
    return out;
  }
  int size() const override {
    int out = 0;
    check(size_(ours_, &out), "MPI_Comm_size");
    return out;
  }
  void gather_sizes(int mine, int* all) override {
    check(allgather_(&mine, 1, number_, all, 1, number_, ours_), "MPI_Allgather");
  }
  void gather(const std::string& mine, char* all, const int* sizes, const int* at) override {
    check(allgatherv_(mine.data(), static_cast<int>(mine.size()), bytes_, all, sizes, at, bytes_,
                      ours_),
          "MPI_Allgatherv");
  }
  void end() noexcept override {
    if (!is_active()) return;
    free_(&ours_);
    if (is_started_) finalize_();
  }

 private:
  void check(int rc, const char* call) const {
    if (rc == 0) return;
    throw backend_error("mpi: " + std::string(call) + " of " + name_ + " failed with " +
                        std::to_string(rc));
  }

  const std::string name_;
  const Handle world_, bytes_, number_;
  Handle ours_{};
  bool is_started_ = false;  // by us, so it is ours to end
  int (*initialized_)(int*) = nullptr;
  int (*finalized_)(int*) = nullptr;
  int (*init_)(int*, char***, int, int*) = nullptr;
  int (*finalize_)() = nullptr;
  int (*dup_)(Handle, Handle*) = nullptr;
  int (*free_)(Handle*) = nullptr;
  int (*rank_)(Handle, int*) = nullptr;
  int (*size_)(Handle, int*) = nullptr;
  int (*allgather_)(const void*, int, Handle, void*, int, Handle, Handle) = nullptr;
  int (*allgatherv_)(const void*, int, Handle, void*, const int*, const int*, Handle,
                     Handle) = nullptr;
};

// MPICH's values, which its binary interface has guaranteed since 2013.
constexpr int MPICH_WORLD = 0x44000000, MPICH_BYTE = 0x4c00010d, MPICH_INT = 0x4c000405;

std::string version_of(const dynamic_library& from) {
  char text[8192] = "";  // MPI_MAX_LIBRARY_VERSION_STRING is at most this
  int length = 0;
  using function = int (*)(char*, int*);
  const auto version = reinterpret_cast<function>(from.find("MPI_Get_library_version"));
  if (version == nullptr || version(text, &length) != 0) return "unknown";
  const std::string_view all = text;
  return std::string(all.substr(0, all.find_first_of("\n,\t")));
}

bool is_of_mpich(const std::string& version) {
  for (const std::string_view family : {"MPICH", "Intel(R) MPI", "MVAPICH", "CRAY MPICH"}) {
    if (version.find(family) != std::string::npos) return true;
  }
  return false;
}

mpi_choice make_shim(const dynamic_library& from) {
  mpi_choice out;
  if (void* const world = from.find("ompi_mpi_comm_world")) {
    out.library = std::make_unique<mpi_shim<void*>>(from, world, from.find("ompi_mpi_byte"),
                                                    from.find("ompi_mpi_int"));
    return out;
  }
  const std::string version = version_of(from);
  if (is_of_mpich(version))
    out.library = std::make_unique<mpi_shim<int>>(from, MPICH_WORLD, MPICH_BYTE, MPICH_INT);
  else
    out.why_not = "the MPI in " + from.name() + " (" + version + ") is of no family that lci knows";
  return out;
}

bool is_set(const char* variable) { return base::env::find(variable).has_value(); }

bool is_named() {
  bool named = false;
  base::env::for_each_entry(
      base::env::find("LCT_PMI_BACKEND").value_or(""), ",; ",
      [&](std::string_view word) { named = named || base::env::same_word(word, "mpi"); });
  return named;
}

// The family whose mpirun has started this process.
dynamic_library open_by_launcher() {
  if (is_set("OMPI_COMM_WORLD_SIZE"))
    return dynamic_library::open({"libmpi.so.40", "libmpi.so.12", "libmpi.so"}, true);
  return dynamic_library::open({"libmpich.so.12", "libmpi.so.12", "libmpi_cray.so.12"}, true);
}

}  // namespace

mpi_choice find_mpi() {
  mpi_choice none;
  const dynamic_library program = dynamic_library::of_program();
  const bool launched = is_set("OMPI_COMM_WORLD_SIZE") || is_set("PMI_SIZE") || is_set("PMIX_RANK");
  const auto file = base::env::find("LCI_MPI_LIBRARY");
  if (program.find("MPI_Init_thread") != nullptr) {
    mpi_choice found = make_shim(program);
    // Alone in a program, MPI would start helper processes only to say "rank 0 of 1".
    if (!found.library || found.library->is_active() || launched || is_named()) return found;
    none.why_not = "MPI is loaded but not initialized, and no mpirun has started this process";
    return none;
  }
  if (!file && !launched && !is_named()) {
    none.why_not = "no MPI is loaded, and no mpirun has started this process";
    return none;
  }
  const dynamic_library library =
      file ? dynamic_library::open({std::string(*file)}, true) : open_by_launcher();
  if (library) return make_shim(library);
  none.why_not = "no MPI library (LCI_MPI_LIBRARY names one): " + library.why_not();
  return none;
}

bool is_mpi_active() {
  const dynamic_library program = dynamic_library::of_program();
  if (program.find("MPI_Init_thread") == nullptr) return false;
  const mpi_choice found = make_shim(program);
  return found.library && found.library->is_active();
}

}  // namespace lci::boot
