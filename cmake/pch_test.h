// The base set with GoogleTest and protobuf.
#pragma once
#include "cmake/pch_base.h"

#include <gmock/gmock.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/time_util.h>
#include <gtest/gtest.h>
