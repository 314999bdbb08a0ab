/// @file export.hpp
/// Marks the symbols that a client may link against; the library is built with hidden visibility.
#ifndef LCI_EXPORT_HPP
#define LCI_EXPORT_HPP

#if defined(__GNUC__)
/// Visible to clients: functions of the library, and classes that clients derive from or catch.
#define LCI_PUBLIC __attribute__((visibility("default")))
#else
#define LCI_PUBLIC
#endif

#endif  // LCI_EXPORT_HPP
