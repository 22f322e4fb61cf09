#include "ops/kernels.h"
