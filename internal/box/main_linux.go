package box

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The first argument of a process that this package starts from ferry's own binary; helperPort has more behind it.
const (
	helperLandlock = "box-helper-landlock"
	helperProbe    = "box-helper-probe"
	helperPort     = "box-helper-port"
)

// Main is called first thing in main and in the TestMain of a package that builds boxes. When this process was
// started as a helper of a box, Main does that work and does not return; otherwise it returns at once.
func Main() {
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 1 && args[0] == helperLandlock:
		err = enterLandlock()
	case len(args) == 1 && args[0] == helperProbe:
		err = probeInside(os.Stdin, os.Stdout)
	case len(args) > 2 && args[0] == helperPort:
		err = openPort(args[1], args[2:])
	default:
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ferry box:", err)
		os.Exit(125)
	}
	os.Exit(0)
}

// enterLandlock confines itself and becomes the program of the task.
func enterLandlock() error {
	file := os.NewFile(firstData, "task")
	if file == nil {
		return fmt.Errorf("%s is started by ferry, not by hand", helperLandlock)
	}
	var t landlockTask
	if err := json.NewDecoder(file).Decode(&t); err != nil {
		return fmt.Errorf("read the task of the box: %w", err)
	}
	if err := file.Close(); err != nil {
		return err
	}
	if err := os.Chdir(t.Dir); err != nil {
		return err
	}
	program, err := filter(filterSpec{userns: t.Userns, noSockets: t.Net == NetNone})
	if err != nil {
		return err
	}
	// Everything below confines this thread only, and this thread becomes the program.
	runtime.LockOSThread()
	if err := t.restrict(); err != nil {
		return err
	}
	if err := loadFilter(program); err != nil {
		return err
	}
	return fmt.Errorf("run %s: %w", t.Program, syscall.Exec(t.Program, t.Argv, t.Env))
}

// loadFilter puts the system call filter on this thread.
func loadFilter(program []byte) error {
	filters := make([]unix.SockFilter, len(program)/int(unsafe.Sizeof(unix.SockFilter{})))
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&filters[0])), len(program)), program)
	prog := unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(filters)
	if errno != 0 {
		return fmt.Errorf("load the system call filter: %w", errno)
	}
	return nil
}

// ioctl passes request as it is: all 64 bits of it.
func ioctl(fd int, request uint64, arg *byte) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(unsafe.Pointer(arg)))
	if errno != 0 {
		return errno
	}
	return nil
}
