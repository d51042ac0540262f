// The base set with protobuf and gRPC.
#pragma once
#include "cmake/pch_base.h"

#include <google/protobuf/message.h>
#include <google/protobuf/util/time_util.h>
#include <grpcpp/grpcpp.h>
