package main

// stack.c, beside this file, bounds the stacks of threads.

import "C"
