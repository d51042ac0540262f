// The base set with protobuf and gRPC.
#pragma once
#include <google/protobuf/message.h>
#include <google/protobuf/util/time_util.h>
#include <grpcpp/grpcpp.h>

#include "cmake/pch_base.h"
