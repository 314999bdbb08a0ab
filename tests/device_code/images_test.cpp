// What lci_embed_device_code() puts into a program: every byte of what nvcc made, with an image for
// each GPU that was asked for.
#include <gmock/gmock.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

extern const unsigned char lci_test_nothing[];
extern const unsigned long lci_test_nothing_size;

namespace {

template <class T>
T at(unsigned long offset) {
  T value{};
  EXPECT_LE(offset + sizeof value, lci_test_nothing_size);
  std::memcpy(&value, lci_test_nothing + offset, sizeof value);
  return value;
}

// "sm_80" for machine code, "compute_80" for PTX, in their order. The layout is the one that
// drivers have read since CUDA 4: a header of 16 bytes, then each image behind one of its own.
std::vector<std::string> images() {
  std::vector<std::string> found;
  for (unsigned long i = at<std::uint16_t>(6); i < lci_test_nothing_size;
       i += at<std::uint32_t>(i + 4) + at<std::uint64_t>(i + 8)) {
    const bool is_text = at<std::uint16_t>(i) == 1;
    found.push_back((is_text ? "compute_" : "sm_") + std::to_string(at<std::uint32_t>(i + 28)));
  }
  return found;
}

TEST(device_code, is_an_image_as_drivers_load_it) {
  ASSERT_GT(lci_test_nothing_size, 16u);
  EXPECT_EQ(at<std::uint32_t>(0), 0xBA55ED50u);
  EXPECT_EQ(at<std::uint16_t>(6) + at<std::uint64_t>(8), lci_test_nothing_size);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(lci_test_nothing) % 16, 0u);
}

TEST(device_code, has_an_image_for_each_gpu_and_ptx_for_later_ones) {
  std::vector<std::string> wanted;
  std::istringstream numbers(LCI_ARCHITECTURES);
  for (std::string number; std::getline(numbers, number, ',');) {
    wanted.push_back("sm_" + number.substr(0, number.find_first_of("af")));
  }
  wanted.push_back("compute" + wanted.back().substr(2));
  EXPECT_THAT(images(), testing::UnorderedElementsAreArray(wanted));
}

TEST(device_code, every_byte_of_the_image) {
  std::ifstream file(LCI_FATBIN, std::ios::binary);
  const std::string image{std::istreambuf_iterator<char>(file), {}};
  ASSERT_EQ(image.size(), lci_test_nothing_size);
  EXPECT_EQ(std::memcmp(image.data(), lci_test_nothing, image.size()), 0);
}

}  // namespace
