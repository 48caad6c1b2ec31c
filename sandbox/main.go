// One program that is every part of a small Kubernetes control plane and node:
// it becomes the part that its own file name says, so that five symbolic links
// share one build, one file on disk and one copy of the code in memory.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	part := filepath.Base(os.Args[0])
	if part == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	command := command(part)
	if command == nil {
		fmt.Fprintf(os.Stderr, "%q is no part of the control plane; call this program by the name of one of etcd, "+
			"kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kube-proxy\n", part)
		os.Exit(2)
	}
	os.Exit(cli.Run(command))
}

// command answers nil when there is no part of that name.
func command(part string) *cobra.Command {
	switch part {
	case "kube-apiserver":
		return apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		return controllers.NewControllerManagerCommand()
	case "kube-scheduler":
		return scheduler.NewSchedulerCommand()
	case "kubelet":
		return kubelet.NewKubeletCommand(context.Background())
	case "kube-proxy":
		return proxy.NewProxyCommand()
	}
	return nil
}
