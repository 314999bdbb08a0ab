#include "lci/base/passed_descriptors.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>

namespace lci::base {

namespace {

// One message of one part, with room for descriptors beside it.
struct message {
  iovec part;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(MOST_PASSED * sizeof(int))> control{};
  msghdr header{};

  explicit message(std::span<const std::byte> bytes)
      : part{const_cast<std::byte*>(bytes.data()), bytes.size()} {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
  }
  message(const message&) = delete;
  message& operator=(const message&) = delete;
};

}  // namespace

ssize_t send_with_descriptors(int to, std::span<const std::byte> bytes, std::span<const int> passed,
                              int flags) noexcept {
  message out(bytes);
  if (!passed.empty()) {
    out.header.msg_control = out.control.data();
    out.header.msg_controllen = CMSG_SPACE(passed.size_bytes());
    cmsghdr* const head = CMSG_FIRSTHDR(&out.header);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(passed.size_bytes());
    std::memcpy(CMSG_DATA(head), passed.data(), passed.size_bytes());
  }
  return sendmsg(to, &out.header, flags | MSG_NOSIGNAL);
}

received_descriptors receive_with_descriptors(int from, std::span<std::byte> room, std::size_t most,
                                              int flags) noexcept {
  received_descriptors got;
  message in(room);
  in.header.msg_control = in.control.data();
  // Its space is rounded up, so that one descriptor too many could fit.
  in.header.msg_controllen = CMSG_LEN(most * sizeof(int));
  got.bytes = recvmsg(from, &in.header, flags | MSG_CMSG_CLOEXEC);
  if (got.bytes < 0) return got;
  got.is_lost = (in.header.msg_flags & MSG_CTRUNC) != 0;
  const cmsghdr* const head = CMSG_FIRSTHDR(&in.header);
  if (head == nullptr || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
    return got;
  std::array<int, MOST_PASSED> numbers{};
  const std::size_t count = std::min((head->cmsg_len - CMSG_LEN(0)) / sizeof(int), most);
  std::memcpy(numbers.data(), CMSG_DATA(head), count * sizeof(int));
  for (std::size_t i = 0; i < count; ++i) got.passed[i].reset(numbers[i]);
  return got;
}

}  // namespace lci::base
