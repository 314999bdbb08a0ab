// The least that nvcc makes an image of.
extern "C" __global__ void lci_test_nothing() {}
