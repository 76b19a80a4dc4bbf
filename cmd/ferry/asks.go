package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mdp/qrterminal/v3"
	"golang.org/x/term"

	"github.com/ferry-fleet/ferry/internal/redact"
)

// talks reports whether a person can be asked: both ends are a terminal.
func (a *app) talks(in io.Reader) bool {
	f, ok := in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && screenOf(a.out).width > 0
}

// maxReply bounds the line that answers a question.
const maxReply = 256

// agrees asks a question and reads y or N.
func (a *app) agrees(in io.Reader, question string) (bool, error) {
	fmt.Fprintf(a.err, "%s [y/N] ", redact.Visible(question))
	line, err := bufio.NewReader(io.LimitReader(in, maxReply)).ReadString('\n')
	if err != nil && err != io.EOF {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}

// qrCode draws a text for the camera of another machine. In upper case it
// needs fewer squares.
func qrCode(w io.Writer, text string) {
	qrterminal.GenerateWithConfig(strings.ToUpper(text), qrterminal.Config{
		Level: qrterminal.L, Writer: w, HalfBlocks: true, QuietZone: 2,
		BlackChar: qrterminal.BLACK_BLACK, WhiteChar: qrterminal.WHITE_WHITE,
		BlackWhiteChar: qrterminal.BLACK_WHITE, WhiteBlackChar: qrterminal.WHITE_BLACK,
	})
}
