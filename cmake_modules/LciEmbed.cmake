# The bytes of a file as a C++ source; LciDeviceCode.cmake runs this while building, with
#   -DIMAGE=<file> -DSYMBOL=<name> -DOUTPUT=<source>
file(READ ${IMAGE} bytes HEX)
string(LENGTH "${bytes}" digits)
math(EXPR size "${digits} / 2")
if(size EQUAL 0)
  message(FATAL_ERROR "${IMAGE} is empty")
endif()
# Lines of 32 bytes first: one pattern over everything is slow.
string(REPEAT "[0-9a-f]" 64 line)
string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "// Made from ${IMAGE}.
extern const unsigned char ${SYMBOL}[];
extern const unsigned long ${SYMBOL}_size;
alignas(64) const unsigned char ${SYMBOL}[] = {
${bytes}};
const unsigned long ${SYMBOL}_size = ${size};
")
