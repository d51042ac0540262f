// The base set with GoogleTest and protobuf.
#pragma once
#include <gmock/gmock.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/time_util.h>
#include <gtest/gtest.h>

#include "cmake/pch_base.h"
