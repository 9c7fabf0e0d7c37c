#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/base64.h"
#include "cli/repl/char_width.h"
#include "cli/repl/colon_command.h"
#include "cli/repl/completion.h"
#include "cli/repl/escape_filter.h"
#include "cli/repl/history.h"
#include "cli/repl/key_decoder.h"
#include "cli/repl/line_editor.h"
#include "cli/repl/saved_outputs.h"
#include "cli/repl/screen.h"
#include "os/io.h"

namespace cella::cli {
namespace {

using testing::ElementsAre;

class TempDir {
 public:
  TempDir() { path_ = mkdtemp(template_); }
  ~TempDir() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  char template_[32] = "/tmp/cella-repl-test-XXXXXX";
  std::string path_;
};

// Whole, and byte by byte: sequences are cut anywhere.
std::string Filtered(std::string_view bytes) {
  EscapeFilter whole, pieces;
  std::string at_once = whole.Feed(bytes) + whole.Finish();
  std::string one_by_one;
  for (char byte : bytes) one_by_one += pieces.Feed(std::string_view(&byte, 1));
  one_by_one += pieces.Finish();
  EXPECT_EQ(at_once, one_by_one);
  return at_once;
}

TEST(EscapeFilterTest, PassesTextAndColours) {
  EXPECT_EQ(Filtered("a\tb\r\nc\bd é日"), "a\tb\r\nc\bd é日");
  EXPECT_EQ(Filtered("\x1B[1;31mred\x1B[0m"), "\x1B[1;31mred\x1B[0m\x1B[0m");
  EXPECT_EQ(Filtered("\x1B[38:2::1:2:3mx"), "\x1B[38:2::1:2:3mx\x1B[0m");
}

TEST(EscapeFilterTest, DropsSequencesThatControlTheTerminal) {
  EXPECT_EQ(Filtered("a\x1B[2Jb\x1B[Hc"), "abc");
  EXPECT_EQ(Filtered("a\x1B]0;title\x07"
                     "b"),
            "ab");
  EXPECT_EQ(Filtered("a\x1B]52;c;ZXZpbA==\x1B\\b"), "ab");
  EXPECT_EQ(Filtered("a\x1BP+q544e\x1B\\b"), "ab");
  EXPECT_EQ(Filtered("a\x1B[6nb\x1B[cb"), "abb");
  EXPECT_EQ(Filtered("a\x1B"
                     "cb\x1B(0c\x1B#8d"),
            "abcd");
  EXPECT_EQ(Filtered("a\a\x0C\x0E\x7F\x01"
                     "b"),
            "ab");
  EXPECT_EQ(Filtered("\x1B[?25lx\x1B[>4;2mx\x1B[1 qx"), "xxx");
}

TEST(EscapeFilterTest, DropsEightBitControls) {
  EXPECT_EQ(Filtered("a\xC2\x9B"
                     "2Jb"),
            "a2Jb");
  EXPECT_EQ(Filtered("a\x9B"
                     "2Jb"),
            "a\xEF\xBF\xBD"
            "2Jb");
  EXPECT_EQ(Filtered("\xE6\x97x\xFF"), "\xEF\xBF\xBDx\xEF\xBF\xBD");
}

TEST(EscapeFilterTest, UnfinishedSequenceEndsAtTheLineEnd) {
  EXPECT_EQ(Filtered("a\x1B]0;never ended\nb"), "a\nb");
  EXPECT_EQ(Filtered("a\x1B[12\nb"), "a\nb");
  EXPECT_EQ(Filtered("a\x1B["), "a");
  EXPECT_EQ(Filtered("a\x1B[" + std::string(100, '1') + "mb"), "ab");
}

TEST(EscapeFilterTest, PlainTextDropsColoursAndLineEnds) {
  EXPECT_EQ(PlainText("a\x1B[31mb\x1B[0m\r\nc\t"), "abc");
  EXPECT_EQ(PlainText("name? "), "name? ");
}

TEST(CharWidthTest, ReturnsWidthOfWideAndCombiningCharacters) {
  EXPECT_EQ(TextWidth("abc"), 3u);
  EXPECT_EQ(TextWidth("é"), 1u);
  EXPECT_EQ(TextWidth("e\u0301"), 1u);
  EXPECT_EQ(TextWidth("日本"), 4u);
  EXPECT_EQ(TextWidth("😀"), 2u);
  EXPECT_EQ(TextWidth("\xFF"), 1u);
}

TEST(KeyDecoderTest, DecodesTextAndKeys) {
  KeyDecoder decoder;
  EXPECT_THAT(decoder.Feed("aé\r"), ElementsAre(Key{KeyCode::kText, "aé"}, Key{KeyCode::kEnter, ""}));
  EXPECT_THAT(decoder.Feed("\x1B[A\x1BOB\x1B[1;5C\x1B[3~\x1B"
                           "b\x1B\r"),
              ElementsAre(Key{KeyCode::kUp, ""}, Key{KeyCode::kDown, ""}, Key{KeyCode::kWordRight, ""},
                          Key{KeyCode::kDelete, ""}, Key{KeyCode::kWordLeft, ""}, Key{KeyCode::kNewline, ""}));
  EXPECT_THAT(decoder.Feed("\x03\x04\x1A"),
              ElementsAre(Key{KeyCode::kInterrupt, ""}, Key{KeyCode::kEndOfInput, ""}, Key{KeyCode::kSuspend, ""}));
}

TEST(KeyDecoderTest, DecodesSequencesArrivingInPieces) {
  KeyDecoder decoder;
  EXPECT_THAT(decoder.Feed("\xE6"), ElementsAre());
  EXPECT_THAT(decoder.Feed("\x97"), ElementsAre());
  EXPECT_THAT(decoder.Feed("\xA5"), ElementsAre(Key{KeyCode::kText, "日"}));
  EXPECT_THAT(decoder.Feed("\x1B"), ElementsAre());
  EXPECT_THAT(decoder.Feed("["), ElementsAre());
  EXPECT_THAT(decoder.Feed("D"), ElementsAre(Key{KeyCode::kLeft, ""}));
}

TEST(KeyDecoderTest, LoneEscapeBeforeOtherKeysIsDropped) {
  KeyDecoder decoder;
  EXPECT_THAT(decoder.Feed("\x1B\x03"), ElementsAre(Key{KeyCode::kInterrupt, ""}));
  EXPECT_THAT(decoder.Feed("\x1B\x1B[A"), ElementsAre(Key{KeyCode::kUp, ""}));
  EXPECT_THAT(decoder.Feed("\x1B[99;99z!"), ElementsAre(Key{KeyCode::kText, "!"}));
}

TEST(KeyDecoderTest, BracketedPasteIsOneKeyWithoutControls) {
  KeyDecoder decoder;
  EXPECT_THAT(decoder.Feed("\x1B[200~if x:\r  a\tb\r\n"), ElementsAre());
  EXPECT_THAT(decoder.Feed("\x03\x1B[20"), ElementsAre());
  EXPECT_THAT(decoder.Feed("1~\r"), ElementsAre(Key{KeyCode::kPaste, "if x:\n  a\tb\n"}, Key{KeyCode::kEnter, ""}));
}

void Type(LineEditor& editor, std::string_view bytes) {
  KeyDecoder decoder;
  for (const Key& key : decoder.Feed(bytes)) editor.Handle(key);
}

std::string WithCursor(const LineEditor& editor) {
  std::string text = editor.buffer().text();
  return text.insert(editor.buffer().cursor(), "|");
}

TEST(LineEditorTest, MovesTheCursor) {
  LineEditor editor(nullptr);
  Type(editor, "one two\x1B[D\x1B[D");
  EXPECT_EQ(WithCursor(editor), "one t|wo");
  Type(editor, "\x01");
  EXPECT_EQ(WithCursor(editor), "|one two");
  Type(editor,
       "\x1B"
       "f");
  EXPECT_EQ(WithCursor(editor), "one| two");
  Type(editor, "\x05!");
  EXPECT_EQ(WithCursor(editor), "one two!|");
}

TEST(LineEditorTest, MovesAndDeletesByCharacterNotByByte) {
  LineEditor editor(nullptr);
  Type(editor, "日e\u0301x\x1B[D\x1B[D");
  EXPECT_EQ(WithCursor(editor), "日|e\u0301x");
  Type(editor, "\x1B[3~\x7F");
  EXPECT_EQ(WithCursor(editor), "|x");
}

TEST(LineEditorTest, YanksDeletedText) {
  LineEditor editor(nullptr);
  Type(editor, "one two\x17");
  EXPECT_EQ(WithCursor(editor), "one |");
  Type(editor, "\x15\x19\x19");
  EXPECT_EQ(WithCursor(editor), "one one |");
  Type(editor, "\x01\x0B\x19");
  EXPECT_EQ(WithCursor(editor), "one one |");
}

TEST(LineEditorTest, EditsSeveralLines) {
  LineEditor editor(nullptr);
  Type(editor, "\x1B[200~first\nx\nthird\x1B[201~\x1B[A\x1B[A");
  EXPECT_EQ(WithCursor(editor), "f|irst\nx\nthird");
  Type(editor, "\x05\x0B");
  EXPECT_EQ(WithCursor(editor), "first|x\nthird");
  EXPECT_FALSE(editor.buffer().on_last_line());
}

TEST(LineEditorTest, BackspaceRemovesOneIndentationLevel) {
  LineEditor editor(nullptr);
  Type(editor, "      \x7F");
  EXPECT_EQ(editor.buffer().text(), "    ");
  Type(editor, "\x7Fx \x7F");
  EXPECT_EQ(editor.buffer().text(), "x");
}

TEST(LineEditorTest, PastedLinesKeepTheirOwnIndentation) {
  LineEditor editor(nullptr);
  editor.buffer().Set("if x:\n    ");
  Type(editor, "\x1B[200~    a\n    b\x1B[201~");
  EXPECT_EQ(editor.buffer().text(), "if x:\n    a\n    b");
}

TEST(LineEditorTest, TabIndentsAtTheStartAndCompletesElsewhere) {
  LineEditor editor(nullptr);
  EXPECT_EQ(editor.Handle({KeyCode::kTab, ""}), LineEditor::Request::kNone);
  EXPECT_EQ(editor.buffer().text(), "    ");
  Type(editor, "x");
  EXPECT_EQ(editor.Handle({KeyCode::kTab, ""}), LineEditor::Request::kComplete);
}

TEST(LineEditorTest, ControlDLeavesOnlyOnAnEmptyEntry) {
  LineEditor editor(nullptr);
  EXPECT_EQ(editor.Handle({KeyCode::kEndOfInput, ""}), LineEditor::Request::kEndOfInput);
  Type(editor, "ab\x01");
  EXPECT_EQ(editor.Handle({KeyCode::kEndOfInput, ""}), LineEditor::Request::kNone);
  EXPECT_EQ(editor.buffer().text(), "b");
}

TEST(LineEditorTest, HistoryNavigationKeepsTheUnfinishedEntry) {
  History history;
  history.Add("one");
  history.Add("two\nlines");
  LineEditor editor(&history);
  Type(editor, "new\x1B[A");
  EXPECT_EQ(editor.buffer().text(), "two\nlines");
  Type(editor, "\x1B[A\x1B[A");
  EXPECT_EQ(editor.buffer().text(), "one");
  Type(editor, "\x0E\x0E");
  EXPECT_EQ(WithCursor(editor), "new|");
}

TEST(LineEditorTest, SearchFindsOlderEntriesAndGivesUp) {
  History history;
  for (const char* entry : {"alpha one", "beta", "alpha two"}) history.Add(entry);
  LineEditor editor(&history);
  Type(editor,
       "typed\x12"
       "alp");
  EXPECT_EQ(editor.search_prompt(), "(search 'alp') ");
  EXPECT_EQ(editor.buffer().text(), "alpha two");
  Type(editor, "\x12");
  EXPECT_EQ(editor.buffer().text(), "alpha one");
  Type(editor, "\x12");
  EXPECT_EQ(editor.search_prompt(), "(not found 'alp') ");
  Type(editor, "\x07");
  EXPECT_EQ(editor.buffer().text(), "typed");
  Type(editor,
       "\x12"
       "bet");
  EXPECT_EQ(editor.Handle({KeyCode::kEnter, ""}), LineEditor::Request::kEnter);
  EXPECT_EQ(editor.buffer().text(), "beta");
}

TEST(IndentTest, FollowsAColonInPython) {
  EXPECT_EQ(IndentAfter("def f():", "python"), "    ");
  EXPECT_EQ(IndentAfter("    if x:  # why: because", "python"), "        ");
  EXPECT_EQ(IndentAfter("    # a comment:", "python"), "    ");
  EXPECT_EQ(IndentAfter("  x = 1", "python"), "  ");
  EXPECT_EQ(IndentAfter("case x:", "javascript"), "");
}

TEST(IndentTest, DetectsUnfinishedCode) {
  EXPECT_TRUE(LooksUnfinished("for x in y:"));
  EXPECT_TRUE(LooksUnfinished("f("));
  EXPECT_FALSE(LooksUnfinished("f()"));
  EXPECT_TRUE(LooksUnfinished("for x in y:\n  z"));
  EXPECT_FALSE(LooksUnfinished("for x in y:\n  z\n"));
}

TEST(ScreenTest, RedrawsInPlace) {
  Screen screen;
  EXPECT_EQ(screen.Draw({">>> ", "... ", "ab", 2}, {24, 80}), "\r\x1B[J>>> ab\r\x1B[6C");
  EXPECT_EQ(screen.Draw({">>> ", "... ", "a\nb", 1}, {24, 80}), "\r\x1B[J>>> a\r\n... b\x1B[1A\r\x1B[5C");
  EXPECT_EQ(screen.Leave(), "\x1B[1B\r\n");
}

TEST(ScreenTest, WrapsLongRows) {
  Screen screen;
  EXPECT_EQ(screen.Draw({"> ", "", "abcdef", 6}, {24, 4}), "\r\x1B[J> ab\r\ncdef\r\n\r");
  EXPECT_EQ(screen.Draw({"> ", "", "a日", 4}, {24, 4}), "\x1B[2A\r\x1B[J> a\r\n日\r\x1B[2C");
}

TEST(ScreenTest, ShowsControlCharactersAsText) {
  Screen screen;
  EXPECT_EQ(screen.Draw({"", "", "a\x1B[2Jb\tc", 0}, {24, 80}), "\r\x1B[Ja?[2Jb  c\r");
}

TEST(ScreenTest, ShowsTallEntryAroundTheCursor) {
  Screen screen;
  EXPECT_EQ(screen.Draw({"", "", "1\n2\n3\n4", 7}, {2, 80}), "\r\x1B[J3\r\n4\r\x1B[1C");
  EXPECT_EQ(screen.Draw({"", "", "1\n2\n3\n4", 0}, {2, 80}), "\x1B[1A\r\x1B[J1\r\n2\x1B[1A\r");
}

TEST(HistoryTest, StoresMultiLineEntriesOnDisk) {
  TempDir dir;
  const std::string path = dir / "history";
  {
    History history;
    ASSERT_TRUE(history.Open(path));
    history.Add("one");
    history.Add("one");
    history.Add(" secret");
    history.Add("  \n");
    history.Add("if x:\n    'a\\n'");
  }
  History again;
  ASSERT_TRUE(again.Open(path));
  EXPECT_THAT(again.entries(), ElementsAre("one", "if x:\n    'a\\n'"));
  struct stat info = {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(HistoryTest, IsBounded) {
  TempDir dir;
  const std::string path = dir / "history";
  {
    std::ofstream file(path);
    for (size_t i = 0; i < History::kMaxEntries + 5; ++i) file << "entry " << i << "\n";
  }
  History history;
  ASSERT_TRUE(history.Open(path));
  EXPECT_EQ(history.entries().size(), History::kMaxEntries);
  EXPECT_EQ(history.entries().front(), "entry 5");
  history.Add(std::string(History::kMaxEntry + 1, 'x'));
  EXPECT_EQ(history.entries().back(), "entry 10004");
  auto text = os::ReadFile(path, 1 << 20);
  ASSERT_TRUE(text);
  EXPECT_TRUE(text->starts_with("entry 5\n"));
}

TEST(HistoryTest, DoesNotFollowSymlinks) {
  TempDir dir;
  {
    std::ofstream(dir / "target") << "x\n";
  }
  std::filesystem::create_symlink(dir / "target", dir / "history");
  History history;
  EXPECT_FALSE(history.Open(dir / "history"));
}

TEST(CompletionTest, CountsCharacters) {
  auto completion = ParseCompletion(R"({"start": 3, "end": 5, "matches": ["path", "pathlib"]})", "é日.pa");
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->begin, 6u);
  EXPECT_EQ(completion->end, 8u);
  EXPECT_EQ(CommonPrefix(completion->matches), "path");
  EXPECT_EQ(CharactersBefore("é日.pa", 6), 3u);
}

TEST(CompletionTest, RejectsInvalidAnswersOfTheGuest) {
  EXPECT_FALSE(ParseCompletion("nonsense", "x"));
  EXPECT_FALSE(ParseCompletion(R"({"start": 0, "end": 9, "matches": ["x"]})", "x"));
  EXPECT_FALSE(ParseCompletion(R"({"start": 1, "end": 0, "matches": ["x"]})", "x"));
  EXPECT_FALSE(ParseCompletion(R"({"start": -1, "end": 1, "matches": ["x"]})", "x"));
  EXPECT_FALSE(ParseCompletion(R"({"start": 0, "end": 1, "matches": ["a\nb", "\u001b[2J", 3, ""]})", "x"));
}

TEST(CompletionTest, CommonPrefixEndsBetweenCharacters) {
  EXPECT_EQ(CommonPrefix({"aé", "aè"}), "a");
  EXPECT_EQ(CommonPrefix({"ab", "abc"}), "ab");
}

TEST(CompletionTest, ArrangesColumns) {
  EXPECT_EQ(InColumns({"a", "bbb", "c"}, 11), "a    c\nbbb\n");
  EXPECT_EQ(InColumns({"a", "b"}, 1), "a\nb\n");
  auto names = CompleteName(ColonNames(), ":che", 1, 4);
  ASSERT_TRUE(names);
  EXPECT_THAT(names->matches, ElementsAre("checkpoint", "checkpoints"));
}

TEST(ColonCommandTest, ParsesCommands) {
  EXPECT_FALSE(ParseColonCommand("x = 1"));
  EXPECT_FALSE(ParseColonCommand(" :help"));
  auto command = ParseColonCommand(":bash  ls -l ");
  ASSERT_TRUE(command);
  EXPECT_EQ(command->name, "bash");
  EXPECT_EQ(command->argument, "ls -l");
}

TEST(SavedOutputsTest, DoesNotOverwriteExistingFiles) {
  TempDir dir;
  std::filesystem::create_directory(dir / "images");
  std::filesystem::create_symlink(dir / "victim", dir / "images/cella-1.png");
  SavedOutputs saved(dir / "images");
  auto path = saved.Save("png", "content");
  ASSERT_TRUE(path) << path.error().message;
  EXPECT_EQ(*path, dir / "images/cella-2.png");
  EXPECT_FALSE(std::filesystem::exists(dir / "victim"));
  EXPECT_EQ(os::ReadFile(*path, 100).value_or(""), "content");
}

TEST(SavedOutputsTest, IsBounded) {
  TempDir dir;
  SavedOutputs saved(dir / "images");
  std::string content(SavedOutputs::kMaxBytes + 1, 'x');
  auto path = saved.Save("png", content);
  ASSERT_FALSE(path);
  EXPECT_EQ(path.error().code, ErrorCode::kExhausted);
}

}  // namespace
}  // namespace cella::cli
