# The bytes of a file as a C++ source, which has the assembler read them: a megabyte written out as numbers takes the
# compiler ten seconds. LciDeviceCode.cmake runs this while building, with
#   -DIMAGE=<file> -DSYMBOL=<name> -DOUTPUT=<source>
file(SIZE ${IMAGE} size)
if(size EQUAL 0)
  message(FATAL_ERROR "${IMAGE} is empty")
endif()
file(WRITE ${OUTPUT} "// Made from ${IMAGE}.
asm(R\"(
  .pushsection .rodata
  .balign 64
  .globl ${SYMBOL}
  .hidden ${SYMBOL}
  .type ${SYMBOL}, %object
${SYMBOL}:
  .incbin \"${IMAGE}\"
  .size ${SYMBOL}, . - ${SYMBOL}
  .balign 8
  .globl ${SYMBOL}_size
  .hidden ${SYMBOL}_size
  .type ${SYMBOL}_size, %object
${SYMBOL}_size:
  .quad ${size}
  .size ${SYMBOL}_size, 8
  .popsection
)\");
")
