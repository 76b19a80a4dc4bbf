package box

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data, whose arguments are 64 bits wide and little-endian on both architectures.
const (
	offNumber = 0
	offArch   = 4
	offArg0   = 16
	offArg1   = 24
)

const (
	x32Bit = 0x40000000 // marks the second system call table of amd64

	// newNamespaces are the flags of clone that make a namespace.
	newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
		unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP

	refused = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
)

// deniedCalls reach other processes, the kernel or the machine. A denied call fails with EPERM, so that programs that
// only try it go on.
var deniedCalls = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SYSLOG,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_VHANGUP,
}

// namespaceCalls change what a process sees of the machine.
var namespaceCalls = []uint32{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT,
	unix.SYS_FSPICK, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_MOUNT_SETATTR, unix.SYS_SETNS, unix.SYS_UNSHARE,
}

// filterSpec is what a filter depends on.
type filterSpec struct {
	userns    bool
	noSockets bool // landlock without network: only the kernel's filter can deny every socket
}

// filter returns the system call filter as the kernel takes it.
func filter(f filterSpec) ([]byte, error) {
	arch, ok := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if !ok {
		return nil, errors.New("the system call filter knows amd64 and arm64, not " + runtime.GOARCH)
	}
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: arch, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
	}
	if runtime.GOARCH == "amd64" {
		program = append(program, whenAtLeast(x32Bit, unix.SECCOMP_RET_KILL_PROCESS)...)
	}
	for _, n := range deniedCalls {
		program = append(program, whenEqual(n, refused)...)
	}
	if !f.userns {
		for _, n := range namespaceCalls {
			program = append(program, whenEqual(n, refused)...)
		}
		// The flags of clone3 are in memory, where no filter can look: without it everybody uses clone.
		program = append(program, whenEqual(unix.SYS_CLONE3, unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS))...)
		program = append(program, whenCall(unix.SYS_CLONE, offArg0,
			bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: newNamespaces, SkipFalse: 1}, bpf.RetConstant{Val: refused})...)
	}
	program = append(program, whenCall(unix.SYS_IOCTL, offArg1, terminalInput()...)...)
	program = append(program, whenCall(unix.SYS_SOCKET, offArg0, socketFamilies(f.noSockets)...)...)
	program = append(program, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
	raw, err := bpf.Assemble(program)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = binary.Write(&out, binary.NativeEndian, raw)
	return out.Bytes(), err
}

func whenEqual(n, verdict uint32) []bpf.Instruction {
	return []bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpEqual, Val: n, SkipFalse: 1}, bpf.RetConstant{Val: verdict}}
}

func whenAtLeast(n, verdict uint32) []bpf.Instruction {
	return []bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: n, SkipFalse: 1}, bpf.RetConstant{Val: verdict}}
}

// whenCall runs body with the low word of an argument of call n, and goes on with the number loaded again.
func whenCall(n, arg uint32, body ...bpf.Instruction) []bpf.Instruction {
	block := []bpf.Instruction{
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: n, SkipTrue: uint8(len(body) + 2)},
		bpf.LoadAbsolute{Off: arg, Size: 4},
	}
	block = append(block, body...)
	return append(block, bpf.LoadAbsolute{Off: offNumber, Size: 4})
}

// terminalInput denies the two requests that type into a terminal. The kernel looks only at the low 32 bits.
func terminalInput() []bpf.Instruction {
	return append(whenEqual(unix.TIOCSTI, refused), whenEqual(unix.TIOCLINUX, refused)...)
}

// socketFamilies lets through what programs use for each other and the network, and netlink, by which they list
// their interfaces. The others (vsock, packet, alg, ...) reach the machine or old kernel code.
func socketFamilies(none bool) []bpf.Instruction {
	if none {
		return []bpf.Instruction{bpf.RetConstant{Val: refused}}
	}
	allowed := []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}
	var body []bpf.Instruction
	for i, family := range allowed {
		// Past the remaining comparisons and the refusal.
		body = append(body, bpf.JumpIf{Cond: bpf.JumpEqual, Val: family, SkipTrue: uint8(len(allowed) - i)})
	}
	return append(body, bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)})
}
