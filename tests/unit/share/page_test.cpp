#include "lci/share/page.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include "tests/support/leak_guard.hpp"
#include "tests/unit/share/owner_process.hpp"

namespace lci::share {
namespace {

handle numbered(published_page& page, std::uint32_t slot, std::uint8_t tag) {
  handle h;
  h.pid = 1;
  h.start_time = 5;
  h.page_fd = 3;
  h.memory_fd = 4;
  h.serial = page.next_serial();
  h.slot = slot;
  h.memory_size = h.size = 8;
  h.tag.fill(tag);
  return handle::decode(h.encode());
}

TEST(page_test, compare__same_until_it_is_cleared) {
  const test::leak_guard guard;
  published_page page;
  const page_view seen = open_page(page.fd());
  const handle first = numbered(page, 7, 1);
  page.write(first);
  EXPECT_EQ(seen.compare(first), verdict::same);
  page.clear(7);
  EXPECT_EQ(seen.compare(first), verdict::stale);
  const handle second = numbered(page, 7, 2);
  page.write(second);
  EXPECT_EQ(seen.compare(first), verdict::stale);
  EXPECT_EQ(seen.compare(second), verdict::same);
}

TEST(page_test, compare__what_was_never_there_is_forged) {
  published_page page;
  handle h = numbered(page, 0, 1);
  page.write(h);
  for (const auto change : {+[](handle& x) { x.tag[15] ^= 1; }, +[](handle& x) { x.size = 4; },
                            +[](handle& x) { ++x.serial; }, +[](handle& x) { x.slot = 1; },
                            +[](handle& x) { x.slot = SLOTS; }, +[](handle& x) { x.slot = ~0u; }}) {
    handle bad = h;
    change(bad);
    EXPECT_EQ(page.view().compare(handle::decode(bad.encode())), verdict::forged);
  }
}

TEST(page_test, open_page__other_descriptors_are_refused) {
  const test::leak_guard guard;
  const base::descriptor null(open("/dev/null", O_RDWR | O_CLOEXEC));
  const base::descriptor plain(memfd_create("lci-buffers", MFD_CLOEXEC));
  const base::descriptor sealed(memfd_create("lci-buffers", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(sealed.get(), 4096 + SLOTS * 320), 0);
  ASSERT_EQ(fcntl(sealed.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE), 0);
  for (const int fd : {null.get(), plain.get(), sealed.get(), -1, 100000})
    EXPECT_EQ(fault_of([&] { open_page(fd); }), buffer_fault::forged);
}

TEST(page_test, importers__cannot_write_or_shorten_it) {
  published_page page;
  EXPECT_EQ(mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, page.fd(), 0), MAP_FAILED);
  EXPECT_NE(ftruncate(page.fd(), 0), 0);
  EXPECT_LT(pwrite(page.fd(), "x", 1, 0), 0);
}

}  // namespace
}  // namespace lci::share
