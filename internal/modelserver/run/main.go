// Command run serves a model script until it is interrupted. It is the scripted
// stand-in for paid model services that ferry's tests and demos use; it never
// asks a model.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/ferry-fleet/ferry/internal/modelserver"
)

func main() {
	script := flag.String("script", "", "the `file` with the script, in JSON")
	addr := flag.String("addr", "127.0.0.1:0", "the `address` to listen on; port 0 takes a free one")
	printAddr := flag.Bool("print-addr", false, "print the URL alone on one line")
	flag.Parse()
	if err := serve(*script, *addr, *printAddr); err != nil {
		fmt.Fprintln(os.Stderr, "modelserver:", err)
		os.Exit(1)
	}
}

func serve(script, addr string, printAddr bool) error {
	f, err := os.Open(script)
	if err != nil {
		return fmt.Errorf("open script: %w", err)
	}
	s, err := modelserver.ReadScript(f)
	// Nothing was written to f.
	_ = f.Close()
	if err != nil {
		return fmt.Errorf("%s: %w", script, err)
	}
	srv, err := modelserver.New(s)
	if err != nil {
		return err
	}
	url, stop, err := modelserver.Listen(srv, addr)
	if err != nil {
		return err
	}
	if printAddr {
		fmt.Println(url)
	} else {
		fmt.Printf("scripted stand-in for a model service (no model behind it): %s\n", url)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	<-ctx.Done()
	return stop()
}
