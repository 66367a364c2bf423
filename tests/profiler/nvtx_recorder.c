/* A profiler as NVTX sees one: writes every push and pop as a line (thread, what, domain, label) of the file named by NVTX_RECORD.
 * NVTX loads it because NVTX_INJECTION64_PATH names it, and calls InitializeInjectionNvtx2, and InitializeInjectionNvtxExtension for each
 * of its extensions. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <nvtx3/nvToolsExt.h>

static FILE* file;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void record(const char* what, nvtxDomainHandle_t domain, const char* label)
{
    pthread_mutex_lock(&lock);
    fprintf(file, "%ld\t%s\t%s\t%s\n", (long)syscall(SYS_gettid), what, (const char*)domain, label);
    pthread_mutex_unlock(&lock);
}

/* Domains and registered strings are known by their texts. */
static nvtxDomainHandle_t domain_create(const char* name)
{
    return (nvtxDomainHandle_t)strdup(name);
}

static nvtxStringHandle_t register_string(nvtxDomainHandle_t domain, const char* text)
{
    record("register", domain, text);
    return (nvtxStringHandle_t)strdup(text);
}

static int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event)
{
    int registered = event->messageType == NVTX_MESSAGE_TYPE_REGISTERED;
    record("push", domain, registered ? (const char*)event->message.registered : event->message.ascii);
    return 0;
}

static int pop(nvtxDomainHandle_t domain)
{
    record("pop", domain, "");
    return 0;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks* callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned int size;
    const char* path = getenv("NVTX_RECORD");
    if (callbacks == NULL || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size)) return 0;
    if (size <= NVTX_CBID_CORE2_DomainCreateA || path == NULL || (file = fopen(path, "w")) == NULL) return 0;
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)domain_create;
    *table[NVTX_CBID_CORE2_DomainRegisterStringA] = (NvtxFunctionPointer)register_string;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
    return 1;
}

/* nvtxDomainIsEnabled belongs to an extension, and is answered with no where a profiler refuses that. Nsight Systems up to 2023 refuses. */
int InitializeInjectionNvtxExtension(void* module)
{
    (void)module;
    return getenv("NVTX_RECORD_REFUSES") == NULL;
}

__attribute__((destructor)) static void finish(void)
{
    if (file != NULL) fclose(file);
}
