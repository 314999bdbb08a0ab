#include "tools/lcrun/mission.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdint>

#include "lci/boot/bootstrap.hpp"
#include "lci/boot/fd.hpp"
#include "lci/boot/seal.hpp"
#include "lci/errors.hpp"

namespace lcrun {

namespace {

constexpr std::string_view FORM = "lcrun mission 4";
constexpr std::size_t MOST_BYTES = 16 << 20;

void append_string(std::string& out, std::string_view text) {
  out.append(text.substr(0, text.find('\0'))).push_back('\0');
}

void append_list(std::string& out, const std::vector<std::string>& list) {
  append_string(out, std::to_string(list.size()));
  for (const std::string& entry : list) append_string(out, entry);
}

class string_reader {
 public:
  explicit string_reader(std::string_view bytes) : rest_(bytes) {}
  bool take(std::string& out) {
    const std::size_t end = rest_.find('\0');
    if (end == std::string_view::npos) return false;
    out = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return true;
  }
  bool take(int& out, int low, int high) {
    std::string text;
    if (!take(text)) return false;
    const char* const end = text.data() + text.size();
    return std::from_chars(text.data(), end, out).ptr == end && !text.empty() && out >= low &&
           out <= high;
  }
  bool take(std::vector<std::string>& out) {
    int count = 0;
    if (!take(count, 0, static_cast<int>(rest_.size()))) return false;
    out.resize(static_cast<std::size_t>(count));
    for (std::string& entry : out) {
      if (!take(entry)) return false;
    }
    return true;
  }
  bool is_done() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

void read_all(int fd, char* to, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::read(fd, to, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw lci::argument_error("--agent: the lcrun that started this one has ended");
    to += n;
    size -= static_cast<std::size_t>(n);
  }
}

// Below the ports that systems assign by themselves; whether it is free there is not known here.
int random_port() {
  std::uint16_t bits = 0;
  if (::getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits))
    throw lci::backend_error("getrandom failed: " + lci::boot::errno_text(errno));
  return 20000 + bits % 12000;
}

}  // namespace

mission make_mission(const options& opts, const std::string& address) {
  mission m;
  m.opts = opts;
  if (m.opts.address.empty()) m.opts.address = address;
  if (m.opts.port == 0) m.opts.port = random_port();
  m.secret = lci::boot::make_secret();
  m.page_mark = lci::boot::make_secret();
  char here[4096];
  m.directory = ::getcwd(here, sizeof here) != nullptr ? here : "/";
  m.environment = variables_for_others();
  for (const std::string& v : opts.variables) m.environment.push_back(v);
  for (char** word = opts.command; *word != nullptr; ++word) m.command.emplace_back(*word);
  return m;
}

std::string to_bytes(const mission& m) {
  std::string out;
  append_string(out, FORM);
  const options& o = m.opts;
  for (const int number : {o.nprocs, o.first, o.local, o.port, o.tag_output ? 1 : 0,
                           o.keep_going ? 1 : 0, o.bind_core ? 1 : 0})
    append_string(out, std::to_string(number));
  for (const std::string* text : {&o.address, &m.secret, &m.page_mark, &m.directory})
    append_string(out, *text);
  append_list(out, m.environment);
  append_list(out, m.command);
  return std::to_string(out.size()) + "\n" + out;
}

std::optional<mission> parse_mission(std::string_view bytes) {
  string_reader in(bytes);
  mission m;
  options& o = m.opts;
  std::string form;
  int tag = 0, keep = 0, bind = 0;
  const int most = lci::boot::MAX_RANKS;
  const bool whole = in.take(form) && form == FORM && in.take(o.nprocs, 1, most) &&
                     in.take(o.first, 0, o.nprocs - 1) && in.take(o.local, 1, o.nprocs - o.first) &&
                     in.take(o.port, 1, 65535) && in.take(tag, 0, 1) && in.take(keep, 0, 1) &&
                     in.take(bind, 0, 1) && in.take(o.address) && in.take(m.secret) &&
                     in.take(m.page_mark) && in.take(m.directory) && in.take(m.environment) &&
                     in.take(m.command) && in.is_done();
  if (!whole || m.command.empty() || m.page_mark.empty()) return std::nullopt;
  o.tag_output = tag != 0;
  o.keep_going = keep != 0;
  o.bind_core = bind != 0;
  o.agent = true;
  return m;
}

mission read_mission(int fd) {
  const auto refuse = [] {
    return lci::argument_error(
        "--agent is for lcrun itself: it starts one on each host, of the same version");
  };
  std::size_t length = 0;
  for (;;) {
    char digit = 0;
    read_all(fd, &digit, 1);
    if (digit == '\n') break;
    if (digit < '0' || digit > '9') throw refuse();
    length = 10 * length + static_cast<std::size_t>(digit - '0');
    if (length > MOST_BYTES) throw refuse();
  }
  std::string bytes(length, '\0');
  read_all(fd, bytes.data(), length);
  auto m = parse_mission(bytes);
  if (!m) throw refuse();
  return std::move(*m);
}

std::vector<std::string> variables_for_others() {
  std::vector<std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool ours =
        text.starts_with("LCI_") || text.starts_with("LCT_") || text.starts_with("FI_");
    // The variables that identify a process are set anew.
    const bool place = text.starts_with("LCI_LCRUN_") || text.starts_with("LCI_SSH=") ||
                       text.starts_with("LCT_PMI_") || text.find("_MASTER_") < text.find('=');
    if (ours && !place) out.emplace_back(text);
  }
  return out;
}

}  // namespace lcrun
