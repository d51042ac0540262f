// The set of tests with gRPC.
#pragma once
#include <grpcpp/grpcpp.h>

#include "cmake/pch_test.h"
