#include "apps/command.h"

int main(int argc, char** argv) { return troupe::run_command(argc, argv); }
